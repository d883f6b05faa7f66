// @ts-check
// The alerts and the dashboard in `deploy/`, and the metrics in the guide: every series exists from the start of a server, and each alert
// fires when it should. `promtool` comes with Prometheus. Without it, its tests are skipped, unless FERMATA_REQUIRE_SERVICES=1 forbids that.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { freePort } from '../harness/ports.mjs';
import { Server } from '../harness/server.mjs';

/** @typedef {{ alert: string, expr: string, labels: Record<string, string>, annotations: Record<string, string> }} Rule */
/** @typedef {{ name: string, labels: Record<string, string> }} Series */

const ROOT = path.resolve(import.meta.dirname, '../..');
const ALERTS = path.join(ROOT, 'deploy/prometheus/alerts.yml');
const read = (/** @type {string} */ file) => readFileSync(path.join(ROOT, file), 'utf8');

const NO_PROMTOOL = missing();
if (NO_PROMTOOL !== undefined && process.env.FERMATA_REQUIRE_SERVICES === '1') throw new Error(NO_PROMTOOL);

/** @returns {string | undefined} what is missing */
function missing() {
  try {
    execFileSync('promtool', ['--version'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'there is no promtool program';
  }
}

/** @type {Rule[]} */
const rules = parse(readFileSync(ALERTS, 'utf8')).groups.flatMap(
  (/** @type {{ rules: Rule[] }} */ group) => group.rules,
);

/** The expressions of the dashboard, with its variables replaced as Grafana does it. */
function dashboardExpressions() {
  const { panels } = JSON.parse(read('deploy/grafana.json'));
  /** @type {string[]} */
  const found = panels.flatMap((/** @type {{ targets?: { expr: string }[] }} */ panel) =>
    (panel.targets ?? []).map(({ expr }) => expr),
  );
  return found.map((expr) => expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*'));
}

/**
 * Runs promtool on a file of its own.
 *
 * @param {string[]} args
 * @param {object} content which is YAML as well
 */
function promtool(args, content) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'fermata-promtool-'));
  const file = path.join(folder, 'file.yml');
  writeFileSync(file, JSON.stringify(content));
  try {
    return execFileSync('promtool', [...args, file], { encoding: 'utf8', stdio: 'pipe' });
  } catch (error) {
    const { stdout, stderr } = /** @type {{ stdout: string, stderr: string }} */ (error);
    throw new Error(`${stdout}${stderr}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The series of a server with a channel that has just started. @returns {Promise<Series[]>} */
async function seriesOfFreshServer() {
  const server = new Server(await freePort(), { FERMATA_PUBLIC_URL: 'https://chat.example.com' });
  server.configure('[channels.phone]\nkind = "web_push"\n');
  try {
    await server.start();
    const text = await (await fetch(`${server.url}/metrics`)).text();
    return text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => {
        const [, name = '', inner = ''] = /^(\w+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
        const labels = [...inner.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
        return { name, labels: Object.fromEntries(labels.map(([, label, value]) => [label, value])) };
      });
  } finally {
    await server.discard();
  }
}

/** The names of metrics in a text. @param {string} text */
const namesIn = (text) =>
  text.match(
    /\b(?:fermata|gen_ai_client|http_server)_[a-z_]+_(?:total|seconds|usage|info|open|parked|runs)\b/g,
  ) ?? [];

/**
 * The selectors of an expression.
 *
 * @param {string} expr
 */
function selectors(expr) {
  const found = [
    ...expr.matchAll(
      /\b([a-z_]+)\{([^{}]*(?:\[[{}]\][^{}]*)*)\}|\b(fermata_\w+|http_server_\w+|gen_ai_client_\w+)/g,
    ),
  ];
  return found.map(([, name, inner = '', bare]) => ({
    name: name ?? bare ?? '',
    matchers: [...inner.matchAll(/(\w+)\s*(=~|!=|=)\s*"([^"]*)"/g)].map(
      ([, label = '', operator = '', value = '']) => ({ label, operator, value }),
    ),
  }));
}

/** Labels that Prometheus adds. */
const OF_PROMETHEUS = ['job', 'instance'];

test('every series of the alerts and of the dashboard exists from the start', async () => {
  const series = await seriesOfFreshServer();
  const expressions = [...rules.map(({ expr }) => expr), ...dashboardExpressions()];
  const chosen = expressions.flatMap(selectors).filter(({ name }) => name !== 'up');
  assert.ok(chosen.length > 40, `only ${chosen.length} selectors were found`);
  for (const { name, matchers } of chosen) {
    const asked = matchers.filter(
      ({ label, value }) =>
        // A fresh server has sent no status of 500 or more yet.
        !OF_PROMETHEUS.includes(label) && !(label === 'http_response_status_code' && value === '5..'),
    );
    const exists = series.some(
      (one) =>
        one.name === name &&
        asked.every(({ label, operator, value }) => {
          const has = one.labels[label] ?? '';
          if (operator === '=~') return new RegExp(`^(?:${value})$`).test(has);
          return operator === '=' ? has === value : has !== value;
        }),
    );
    assert.ok(exists, `no series at the start is ${name} with ${JSON.stringify(asked)}`);
  }
  // Labels that sums keep, or that texts show.
  const labels = new Set(series.flatMap((one) => Object.keys(one.labels)));
  for (const own of [...OF_PROMETHEUS, 'le']) labels.add(own);
  const dashboard = read('deploy/grafana.json');
  const mentioned = [
    ...expressions.flatMap((expr) =>
      [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(',')),
    ),
    ...[...dashboard.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label),
    ...rules.flatMap(({ annotations }) =>
      [
        ...Object.values(annotations)
          .join(' ')
          .matchAll(/\$labels\.(\w+)/g),
      ].map(([, label = '']) => label),
    ),
  ].map((label) => label.trim());
  for (const label of mentioned) assert.ok(labels.has(label), `no series has the label ${label}`);
});

test('every metric that the guide names exists from the start', async () => {
  const series = new Set(
    (await seriesOfFreshServer()).map(({ name }) => name.replace(/_(bucket|sum|count)$/, '')),
  );
  const pages = readdirSync(path.join(ROOT, 'docs/guide')).filter((file) => file.endsWith('.md'));
  const named = pages.flatMap((page) => namesIn(read(`docs/guide/${page}`)));
  assert.ok(named.length > 15, `only ${named.length} metrics were found`);
  for (const name of named) assert.ok(series.has(name), `a page of the guide names ${name}`);
});

test('every alert has a severity, a summary and a sentence with the action to take', () => {
  for (const { alert, labels, annotations } of rules) {
    assert.match(labels.severity ?? '', /^(warning|critical)$/, alert);
    assert.ok(annotations.summary, alert);
    assert.match(annotations.action ?? '', /\.$/, alert);
  }
  assert.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length);
});

test('Prometheus reads the alerts, its settings and the dashboard', { skip: NO_PROMTOOL ?? false }, () => {
  execFileSync('promtool', ['check', 'rules', ALERTS], { stdio: 'pipe' });
  const settings = path.join(ROOT, 'deploy/prometheus/prometheus.yml');
  execFileSync('promtool', ['check', 'config', settings], { stdio: 'pipe' });
  const recorded = dashboardExpressions().map((expr, index) => ({ record: `panel_${index}`, expr }));
  promtool(['check', 'rules'], { groups: [{ name: 'dashboard', rules: recorded }] });
});

/** A server that is scraped every 15 s for an hour. */
const at = (/** @type {string} */ name, /** @type {string} */ labels = '') =>
  `${name}{job="fermata",instance="a"${labels === '' ? '' : `,${labels}`}}`;
const STEADY = '0x240';
const GROWS = '0+1x240';
const bucket = (/** @type {string} */ le) =>
  at(
    'gen_ai_client_operation_duration_seconds_bucket',
    `gen_ai_operation_name="chat",gen_ai_request_model="m",le="${le}"`,
  );
const runs = (/** @type {string} */ outcome) => at('fermata_runs_total', `outcome="${outcome}"`);
const status = (/** @type {number} */ code) =>
  at('http_server_request_duration_seconds_count', `http_response_status_code="${code}"`);
const called = (/** @type {string} */ state, /** @type {string} */ type) =>
  at('fermata_calls_total', `gen_ai_tool_name="fetch_url",state="${state}",error_type="${type}"`);
const only = (/** @type {string} */ series) => ({ fires: { [series]: GROWS }, rests: { [series]: STEADY } });

/** Series with which each alert fires, and similar ones with which it does not. */
/** @type {Record<string, { fires: Record<string, string>, rests: Record<string, string> }>} */
const CASES = {
  FermataDown: { fires: { [at('up')]: '0x240' }, rests: { [at('up')]: '1x240' } },
  FermataDatabaseAway: only(at('fermata_lease_renewals_total', 'outcome="failed"')),
  FermataLeaseLost: only(at('fermata_lease_renewals_total', 'outcome="lost"')),
  FermataInstanceCrashed: only(at('fermata_runs_taken_over_total')),
  FermataCrashLoop: only(runs('crash_loop')),
  FermataRunsFail: {
    fires: { [runs('failed')]: GROWS, [runs('finished')]: GROWS },
    rests: { [runs('failed')]: GROWS, [runs('finished')]: '0+100x240' },
  },
  FermataModelSlow: {
    fires: { [bucket('60')]: STEADY, [bucket('120')]: GROWS, [bucket('+Inf')]: GROWS },
    rests: { [bucket('60')]: GROWS, [bucket('120')]: GROWS, [bucket('+Inf')]: GROWS },
  },
  FermataToolFails: {
    fires: { [called('error', 'network')]: GROWS, [called('success', '')]: STEADY },
    rests: {
      [called('error', 'denied')]: GROWS,
      [called('error', 'network')]: STEADY,
      [called('success', '')]: STEADY,
    },
  },
  FermataCallsExpire: only(runs('expired')),
  FermataServerErrors: {
    fires: { [status(500)]: GROWS, [status(200)]: GROWS },
    rests: { [status(500)]: GROWS, [status(200)]: '0+100x240' },
  },
  FermataConnectionsRefused: only(at('fermata_connections_refused_total', 'reason="server"')),
  FermataStreamsCutShort: only(at('fermata_holds_cut_short_total')),
  FermataSummariesFail: only(at('fermata_compactions_total', 'reason="every",outcome="failed"')),
  FermataProxyIgnoresDrain: {
    fires: { [at('fermata_drain_refusals_total')]: '0+10x240' },
    rests: { [at('fermata_drain_refusals_total')]: GROWS },
  },
  FermataRunsCutByUpdate: only(at('fermata_drained_runs_total', 'outcome="cut"')),
  FermataLogLost: only(at('fermata_log_lines_lost_total')),
  FermataVersionsDiffer: {
    fires: {
      [at('fermata_build_info', 'version="1.0.0"')]: '1x480',
      [at('fermata_build_info', 'version="1.1.0"')]: '1x480',
    },
    rests: { [at('fermata_build_info', 'version="1.0.0"')]: '1x480' },
  },
};

test('each alert fires for its fault and for nothing similar', { skip: NO_PROMTOOL ?? false }, () => {
  assert.deepEqual(Object.keys(CASES).toSorted(), rules.map(({ alert }) => alert).toSorted());
  const tests = Object.entries(CASES).flatMap(([alert, { fires, rests }]) => {
    const asks = (/** @type {Record<string, string>} */ series, /** @type {boolean} */ isFiring) => ({
      name: `${alert} ${isFiring ? 'fires' : 'rests'}`,
      interval: '15s',
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      promql_expr_test: [
        {
          expr: `count(ALERTS{alertname="${alert}", alertstate="firing"})`,
          eval_time: alert === 'FermataVersionsDiffer' ? '90m' : '59m',
          exp_samples: isFiring ? [{ labels: '{}', value: 1 }] : [],
        },
      ],
    });
    return [asks(fires, true), asks(rests, false)];
  });
  promtool(['test', 'rules'], { rule_files: [ALERTS], evaluation_interval: '15s', tests });
});
