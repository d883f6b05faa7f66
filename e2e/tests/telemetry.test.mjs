// @ts-check
// The traces of runs, as a collector receives them: one well-formed tree for each run, however often its servers are killed while it waits.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import protobuf from 'protobufjs';
import { clustered } from '../harness/cluster.mjs';
import { EventStream } from '../harness/events.mjs';
import { API_KEY, FakeOpenAi, calls, says } from '../harness/fake-openai.mjs';
import { BROWSER_TOOLS } from '../harness/scenario.mjs';
import { freePort } from '../harness/ports.mjs';
import { Server } from '../harness/server.mjs';
import { until } from '../harness/until.mjs';

/** The part of the protocol that the tests read, with the numbers of its specification. */
const { root } = protobuf.parse(`
  syntax = "proto3";
  message Request { repeated ResourceSpans resource_spans = 1; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
  message Resource { repeated KeyValue attributes = 1; }
  message KeyValue { string key = 1; AnyValue value = 2; }
  message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; } }
  message ScopeSpans { repeated Span spans = 2; }
  message Span {
    bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5; int32 kind = 6;
    fixed64 start = 7; fixed64 end = 8; repeated KeyValue attributes = 9; repeated Link links = 13; Status status = 15;
  }
  message Link { bytes trace_id = 1; bytes span_id = 2; }
  message Status { string message = 2; int32 code = 3; }
  message MetricsRequest { repeated ResourceMetrics resource_metrics = 1; }
  message ResourceMetrics { Resource resource = 1; repeated ScopeMetrics scope_metrics = 2; }
  message ScopeMetrics { repeated Metric metrics = 2; }
  message Metric { string name = 1; Gauge gauge = 5; Sum sum = 7; Histogram histogram = 9; }
  message Gauge { repeated Point data_points = 1; }
  message Sum { repeated Point data_points = 1; int32 aggregation_temporality = 2; bool is_monotonic = 3; }
  message Point { repeated KeyValue attributes = 7; fixed64 time = 3; double as_double = 4; }
  message Histogram { repeated Distribution data_points = 1; int32 aggregation_temporality = 2; }
  message Distribution {
    repeated KeyValue attributes = 9; fixed64 time = 3; fixed64 count = 4; optional double sum = 5;
    repeated fixed64 bucket_counts = 6; repeated double explicit_bounds = 7;
  }
`);
const Request = root.lookupType('Request');
const MetricsRequest = root.lookupType('MetricsRequest');

/**
 * @typedef {object} Span
 * @property {string} traceId
 * @property {string} spanId
 * @property {string} [parentSpanId]
 * @property {string} name
 * @property {bigint} start
 * @property {bigint} end
 * @property {Record<string, string>} attributes
 * @property {{ traceId: string, spanId: string }[]} links
 * @property {{ code?: number }} [status]
 */

/** A collector of OpenTelemetry. */
class Collector {
  /** @type {Span[]} */
  spans = [];
  /** @type {http.IncomingHttpHeaders[]} */
  headers = [];
  /** @type {any[]} */
  metrics = [];
  isAway = false;
  #server = http.createServer(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    this.headers.push(request.headers);
    if (this.isAway) {
      response.writeHead(503).end();
      return;
    }
    if (request.url === '/v1/metrics') {
      this.metrics.push(
        MetricsRequest.toObject(MetricsRequest.decode(Buffer.concat(pieces)), { longs: Number }),
      );
      response.end();
      return;
    }
    assert.deepEqual([request.method, request.url], ['POST', '/v1/traces']);
    const decoded = Request.decode(Buffer.concat(pieces));
    const read = Request.toObject(decoded, { longs: String, bytes: String });
    const hex = (/** @type {string} */ base64) => Buffer.from(base64, 'base64').toString('hex');
    for (const { scopeSpans } of read.resourceSpans)
      for (const { spans } of scopeSpans)
        for (const span of spans)
          this.spans.push({
            ...span,
            traceId: hex(span.traceId),
            spanId: hex(span.spanId),
            ...(span.parentSpanId && { parentSpanId: hex(span.parentSpanId) }),
            start: BigInt(span.start),
            end: BigInt(span.end),
            attributes: Object.fromEntries(
              span.attributes.map((/** @type {any} */ { key, value }) => [
                key,
                value.stringValue ?? value.intValue,
              ]),
            ),
            links: (span.links ?? []).map((/** @type {any} */ link) => ({
              traceId: hex(link.traceId),
              spanId: hex(link.spanId),
            })),
          });
    response.end();
  });

  static async start() {
    const collector = new Collector();
    await new Promise((resolve) => collector.#server.listen(0, '127.0.0.1', () => resolve(undefined)));
    return collector;
  }

  get url() {
    const address = /** @type {import('node:net').AddressInfo} */ (this.#server.address());
    return `http://127.0.0.1:${address.port}`;
  }

  /** Waits for a trace, and checks that it is one tree. */
  async tree() {
    const roots = () => this.spans.filter(({ parentSpanId }) => parentSpanId === undefined);
    await until(
      () => roots().length > 0,
      () => `a trace in: ${this.spans.map(({ name }) => name).join(', ')}`,
    );
    const [root, ...more] = roots();
    assert.ok(root !== undefined && more.length === 0, 'there is one root');
    assert.equal(
      new Set(this.spans.map(({ spanId }) => spanId)).size,
      this.spans.length,
      'no span comes twice',
    );
    for (const span of this.spans) {
      assert.equal(span.traceId, root.traceId);
      assert.ok(span === root || span.parentSpanId === root.spanId, span.name);
      assert.ok(root.start <= span.start && span.start <= span.end && span.end <= root.end, span.name);
    }
    const named = (/** @type {string} */ name) => this.spans.filter((span) => span.name === name);
    return { root, named };
  }

  stop() {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

const note = { name: 'write_note', input: { title: 'Milk', body: 'a secret of the note' } };
const CALLER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

/** @param {Server} server @param {string} chat */
async function pending(server, chat) {
  const response = await fetch(`${server.url}/api/chat/${chat}/pending`);
  return /** @type {any} */ (await response.json()).pending;
}

/** @param {Server} server @param {Record<string, unknown>} body */
async function answer(server, body) {
  const response = await fetch(`${server.url}/chat/tool-result`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  assert.ok(response.ok, await response.text());
}

/** @param {Collector} collector @param {FakeOpenAi} model @param {Record<string, string>} [more] */
const settings = (collector, model, more = {}) => ({
  OPENAI_BASE_URL: model.url,
  OPENAI_API_KEY: API_KEY,
  FERMATA_MODEL: 'test-model',
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=shop',
  ...more,
});

for (const content of [false, true])
  test(`a run that waits over two kills is one tree${content ? ', with contents if that is set' : ''}`, async () => {
    const [collector, model] = await Promise.all([Collector.start(), FakeOpenAi.start()]);
    const server = new Server(
      await freePort(),
      settings(collector, model, { FERMATA_OTEL_CONTENT: String(content) }),
    );
    try {
      await server.start();
      model.script(calls(note), says('Done.'));
      const body = { id: 'shop', messages: [{ role: 'user', content: 'note it' }] };
      const stream = await EventStream.open(`${server.url}/api/chat`, {
        body,
        headers: { traceparent: CALLER },
      });
      await stream.sees('tool-approval-request');
      for (let kill = 0; kill < 2; kill += 1) {
        await server.kill();
        await server.start();
        assert.equal((await pending(server, 'shop')).length, 1);
      }
      assert.equal(collector.spans.length, 0, 'nothing is sent while the run waits');
      const [{ approvalId }] = await pending(server, 'shop');
      await answer(server, { chatId: 'shop', approvalId, approved: true });
      const { root, named } = await collector.tree();
      assert.equal(root.name, 'invoke_agent default');
      assert.deepEqual(root.links, [
        { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' },
      ]);
      assert.equal(root.attributes['gen_ai.conversation.id'], 'shop');
      assert.equal(root.attributes['fermata.ending'], 'finished');
      const [wait] = named('fermata.wait');
      assert.equal(wait?.attributes['fermata.wait.kind'], 'approval');
      assert.equal(wait?.attributes['fermata.wait.outcome'], 'approved');
      const [tool] = named('execute_tool write_note');
      assert.equal(tool?.attributes['fermata.call.state'], 'success');
      assert.ok(wait !== undefined && tool !== undefined && wait.end <= tool.start);
      const steps = named('chat test-model');
      assert.equal(steps.length, 2);
      // Each request to the model has named its span.
      assert.deepEqual(
        model.traceparents,
        steps.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`),
      );
      assert.equal(
        JSON.stringify(collector.spans.map(({ attributes }) => attributes)).includes('a secret of the note'),
        content,
      );
      assert.ok(collector.headers.every((headers) => headers['x-tenant'] === 'shop'));
      assert.equal(collector.spans.length, 5);
    } finally {
      await server.discard();
      collector.stop();
      await model.stop();
    }
  });

/** @type {Collector} */
let shared;
before(async () => {
  shared = await Collector.start();
});
after(() => shared.stop());

clustered(
  'a run that begins at one instance and ends at another is one tree',
  {
    settings: () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: shared.url }),
  },
  async (cluster) => {
    cluster.model.script(
      calls({ name: 'get_location', input: { accuracy: 'high' } }),
      says('You are in Bern.'),
    );
    const stream = await cluster.at(1).post('where am I?', { tools: BROWSER_TOOLS });
    const { toolCallId } = await stream.sees('tool-input-available');
    await cluster.server(1).kill();
    await until(
      () => / another instance is gone; /.test(cluster.server(2).log),
      () => cluster.server(2).log,
    );
    await cluster.at(2).answer({ toolCallId, output: 'Bern' });
    const { named } = await shared.tree();
    const [wait] = named('fermata.wait');
    assert.equal(wait?.attributes['fermata.wait.kind'], 'page');
    assert.equal(named('chat test-model').length, 2);
    assert.equal(named('execute_tool get_location').length, 1);
  },
);

test('a collector that is away costs traces and nothing else, and the log has one warning', async () => {
  const [collector, model] = await Promise.all([Collector.start(), FakeOpenAi.start()]);
  collector.isAway = true;
  const server = await Server.start(settings(collector, model));
  const say = async () => {
    model.script(says('Hello.'));
    const body = { messages: [{ role: 'user', content: 'hi' }] };
    const stream = await EventStream.open(`${server.url}/api/chat`, { body });
    await stream.toEnd();
    assert.ok(stream.done, stream.outline);
  };
  const lost = async () => {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    return Number(/^fermata_traces_lost_total (\d+)/m.exec(text)?.[1]);
  };
  try {
    assert.equal(await lost(), 0);
    await say();
    await until(async () => (await lost()) === 1, 'a lost trace');
    await say();
    await until(async () => (await lost()) === 2, 'a second lost trace');
    assert.equal(server.log.split('takes no traces').length, 2, server.log);
    collector.isAway = false;
    await say();
    await collector.tree();
    await until(
      () => server.log.includes('takes traces again'),
      () => server.log,
    );
  } finally {
    await server.discard();
    collector.stop();
    await model.stop();
  }
});

test('without a collector nothing is traced, and requests to models name no span', async () => {
  const model = await FakeOpenAi.start();
  const server = await Server.start({
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: API_KEY,
    FERMATA_MODEL: 'test-model',
  });
  try {
    model.script(says('Hello.'));
    const body = { messages: [{ role: 'user', content: 'hi' }] };
    const stream = await EventStream.open(`${server.url}/api/chat`, {
      body,
      headers: { traceparent: CALLER },
    });
    await stream.toEnd();
    assert.deepEqual(model.traceparents, [undefined]);
  } finally {
    await server.discard();
    await model.stop();
  }
});

test('the collector gets the metrics from time to time, with the figures of /metrics', async () => {
  const [collector, model] = await Promise.all([Collector.start(), FakeOpenAi.start()]);
  const server = await Server.start(settings(collector, model, { FERMATA_OTEL_INTERVAL: '200ms' }));
  try {
    model.script(says('Hello.'));
    const body = { messages: [{ role: 'user', content: 'hi' }] };
    const stream = await EventStream.open(`${server.url}/api/chat`, { body });
    await stream.toEnd();
    const newest = () => collector.metrics.at(-1)?.resourceMetrics[0].scopeMetrics[0].metrics ?? [];
    const named = (/** @type {string} */ name) =>
      newest().find((/** @type {{ name: string }} */ metric) => metric.name === name);
    const finished = () =>
      named('fermata_runs_total')?.sum.dataPoints.find((/** @type {any} */ { attributes }) =>
        attributes.some(
          (/** @type {any} */ { key, value }) => key === 'outcome' && value.stringValue === 'finished',
        ),
      );
    await until(
      () => finished()?.asDouble === 1,
      () => JSON.stringify(finished()),
    );
    const sum = named('fermata_runs_total').sum;
    assert.deepEqual([sum.aggregationTemporality, sum.isMonotonic], [2, true]);
    const [tokens] = named('gen_ai_client_token_usage').histogram.dataPoints;
    assert.equal(tokens.bucketCounts.length, tokens.explicitBounds.length + 1);
    const text = await (await fetch(`${server.url}/metrics`)).text();
    const shown = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
    assert.deepEqual(
      newest()
        .map((/** @type {{ name: string }} */ { name }) => name)
        .sort(),
      shown.sort(),
    );
  } finally {
    await server.discard();
    collector.stop();
    await model.stop();
  }
});
