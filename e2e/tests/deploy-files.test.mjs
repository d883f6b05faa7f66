// @ts-check
// The files in `deploy/` for Docker Compose, systemd and Kubernetes. The built binary is given each environment that they make, so that no
// setting is unknown or wrong. Names, ports, paths and time limits agree with each other and with the server.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { freePort } from '../harness/ports.mjs';
import { Server, binary } from '../harness/server.mjs';
import { NO_SERVICES, Postgres, Redis } from '../harness/services.mjs';

/** @typedef {Record<string, string>} Environment */
/** @typedef {Record<string, any>} Yaml */

const ROOT = path.resolve(import.meta.dirname, '../..');
const DEPLOY = path.join(ROOT, 'deploy');
const IMAGE = 'ghcr.io/fermata-chat/fermata';
/** The time that open connections get after the drain (`GRACE` in the program). */
const CONNECTIONS_END = 10;

const TOKENS = 'alice:8d0f6c3b2a9e47d1c5b0e7f4';
const SECRETS = {
  'database-url': 'postgres://fermata:a-password@postgres/fermata',
  'redis-url': 'redis://:a-password@redis:6379',
  'openai-api-key': 'sk-example',
  tokens: TOKENS,
  'operator-token': '5f1d8b2c7a6e49d3c0b1e8f7',
};

const read = (/** @type {string} */ file) => readFileSync(path.join(DEPLOY, file), 'utf8');
const guide = readFileSync(path.join(ROOT, 'docs/guide/deployment.md'), 'utf8');

/** @type {string[]} */
const folders = [];
process.on('exit', () => {
  for (const made of folders) rmSync(made, { recursive: true, force: true });
});

/** A folder that is gone when the process ends. */
function folder() {
  const made = mkdtempSync(path.join(os.tmpdir(), 'fermata-deploy-'));
  folders.push(made);
  return made;
}

/**
 * Has the binary check its settings in an environment and nothing else.
 *
 * @param {Environment} env
 * @param {string[]} args
 */
function check(env, args = []) {
  const { status, stdout, stderr } = spawnSync(binary(), [...args, '--check'], {
    cwd: folder(),
    env: { PATH: process.env.PATH, ...env },
    encoding: 'utf8',
  });
  return { status, report: stdout, error: stderr };
}

/**
 * The values in effect. An environment that is refused, or that has an unknown variable, fails the test.
 *
 * @param {Environment} env
 * @param {string[]} [args]
 * @returns {Record<string, string>}
 */
function settingsIn(env, args) {
  const { status, report, error } = check(env, args);
  assert.equal(status, 0, error);
  assert.doesNotMatch(report, /# warning/);
  const [keys = ''] = report.split(/^\[/m);
  const lines = [...keys.matchAll(/^(\w+) = (.*?)(?: {2}# .*)?$/gm)];
  return Object.fromEntries(lines.map(([, key = '', value = '']) => [key, value.replace(/^"(.*)"$/, '$1')]));
}

/** @param {string | undefined} text such as `90s` */
function seconds(text) {
  const [, number, unit] = /^(\d+)(s|m)$/.exec(text ?? '') ?? [];
  assert.ok(number !== undefined, `${text} is no duration`);
  return Number(number) * (unit === 'm' ? 60 : 1);
}

/** @param {Record<string, string>} settings @param {number} limit when the process is killed, in seconds */
function assertEndsInTime({ linger, drain }, limit) {
  const needed = seconds(linger) + seconds(drain) + CONNECTIONS_END;
  assert.ok(limit > needed, `the process is killed after ${limit} s and may need ${needed} s`);
}

const dockerfile = readFileSync(path.join(ROOT, 'Dockerfile'), 'utf8');
/** The environment of the image. */
const imageEnvironment = Object.fromEntries(
  [...dockerfile.matchAll(/^ENV (.*)$/gm)].flatMap(([, line = '']) =>
    [...line.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
  ),
);
const workingFolder = [...dockerfile.matchAll(/^WORKDIR (.*)$/gm)].at(-1)?.[1] ?? '/';

describe('Docker Compose', () => {
  /**
   * A file as Compose reads it with these variables.
   *
   * @param {string} file
   * @param {Environment} variables
   * @returns {Yaml}
   */
  function compose(file, variables) {
    const replace = (/** @type {unknown} */ value) =>
      typeof value === 'string'
        ? value.replace(/\$\{(\w+)(?::([-?])([^}]*))?\}/g, (_, name, kind, rest) => {
            if (variables[name]) return variables[name];
            assert.notEqual(kind, '?', `${name}: ${rest}`);
            return rest ?? '';
          })
        : value;
    return parse(read(file), (_, value) => replace(value), { merge: true });
  }

  /**
   * The environment of a service, with its settings file as this machine has it.
   *
   * @param {Yaml} service
   */
  function environment({ environment, volumes }) {
    const found = { ...imageEnvironment, ...environment };
    if (found.FERMATA_CONFIG) {
      const [from, to] =
        mounts({ volumes }).find(([, to]) => found.FERMATA_CONFIG.startsWith(`${to}/`)) ?? [];
      assert.ok(from && to, `${found.FERMATA_CONFIG} is mounted`);
      found.FERMATA_CONFIG = found.FERMATA_CONFIG.replace(to, path.join(DEPLOY, from));
      assert.ok(existsSync(found.FERMATA_CONFIG), found.FERMATA_CONFIG);
    }
    return found;
  }

  /** @param {Yaml} service @returns {[from: string, to: string][]} */
  const mounts = ({ volumes = [] }) =>
    volumes.map((/** @type {string} */ volume) => volume.split(':').slice(0, 2));

  const passwords = { POSTGRES_PASSWORD: 'a-password', REDIS_PASSWORD: 'a-password' };
  const two = (/** @type {Environment} */ variables) =>
    compose('compose-two.yml', { ...passwords, ...variables });

  test('one instance has settings that the server takes, and time to end', () => {
    const { services } = compose('compose.yml', { FERMATA_TOKENS: TOKENS });
    const { fermata } = services;
    const settings = settingsIn(environment(fermata));
    assert.equal(settings.auth, 'token');
    assert.deepEqual(fermata.ports, [`127.0.0.1:3000:${settings.port}`]);
    const database = path.resolve(workingFolder, String(settings.database_url).replace('sqlite://', ''));
    assert.deepEqual(fermata.volumes, [`data:${path.dirname(database)}`]);
    assertEndsInTime(settings, seconds(fermata.stop_grace_period));
    assert.throws(() => compose('compose.yml', {}), /FERMATA_TOKENS: set it/);
  });

  test('two instances take tokens or JSON Web Tokens, and name the variable that is missing', () => {
    const withTokens = two({ FERMATA_TOKENS: TOKENS }).services;
    for (const name of ['migrate', 'fermata-1', 'fermata-2']) {
      const settings = settingsIn(environment(withTokens[name]));
      assert.equal(settings.auth, 'token');
      assert.equal(settings.migrate, 'false');
      if (name !== 'migrate') assertEndsInTime(settings, seconds(withTokens[name].stop_grace_period));
    }
    const jwt = {
      FERMATA_AUTH: 'jwt',
      FERMATA_JWKS_URL: 'https://issuer.example.com/jwks.json',
      FERMATA_JWT_ISSUER: 'https://issuer.example.com/',
      FERMATA_JWT_AUDIENCE: 'chat',
    };
    assert.equal(settingsIn(environment(two(jwt).services['fermata-1'])).auth, 'jwt');
    for (const [variables, missing] of /** @type {const} */ ([
      [{}, 'FERMATA_TOKENS'],
      [{ FERMATA_AUTH: 'jwt' }, 'FERMATA_JWKS_URL'],
    ])) {
      const { status, error } = check(environment(two(variables).services['fermata-1']));
      assert.equal(status, 1);
      assert.match(error, new RegExp(missing));
    }
  });

  test('the image is named once in each file', () => {
    for (const file of ['compose.yml', 'compose-two.yml'])
      assert.equal(read(file).split(IMAGE).length - 1, 1, file);
  });

  test('every file that is mounted exists', () => {
    const { services } = two({ FERMATA_TOKENS: TOKENS });
    for (const service of Object.values(services))
      for (const [from] of mounts(service))
        if (from.startsWith('.')) assert.ok(existsSync(path.join(DEPLOY, from)), from);
  });

  test('the proxy and Prometheus reach the instances under their names, ports and networks', () => {
    const { services } = two({ FERMATA_TOKENS: TOKENS });
    const names = ['fermata-1', 'fermata-2'];
    const settings = settingsIn(environment(services['fermata-1']));
    const listed = [...read('instances.conf').matchAll(/^\s+server (\S+)/gm)].map(([, address]) => address);
    assert.deepEqual(
      listed,
      names.map((name) => `${name}:${settings.port}`),
    );

    const { scrape_configs: jobs } = parse(read('prometheus/prometheus.yml'));
    const port = String(settings.operator_bind).split(':').at(-1);
    assert.deepEqual(
      jobs[0].static_configs[0].targets,
      names.map((name) => `${name}:${port}`),
    );
    for (const name of names) {
      const { networks } = services[name];
      for (const other of ['proxy', 'prometheus', 'postgres', 'redis'])
        assert.ok(
          services[other].networks.some((/** @type {string} */ one) => networks.includes(one)),
          other,
        );
    }
    for (const other of ['proxy', 'prometheus'])
      for (const inner of ['database', 'redis']) assert.ok(!services[other].networks.includes(inner), other);
    const [listens] = [...read('nginx.conf').matchAll(/listen (\d+)/g)].map(([, one]) => one);
    assert.ok(services.proxy.healthcheck.test.at(-1).includes(`:${listens}/`));
  });

  test('Prometheus may read the metrics under the names of the instances, and others get nothing', async () => {
    const env = environment(two({ FERMATA_TOKENS: TOKENS }).services['fermata-1']);
    const port = await freePort();
    const { FERMATA_HOSTS, FERMATA_AUTH, FERMATA_TOKENS } = env;
    const server = await Server.start({
      FERMATA_HOSTS,
      FERMATA_AUTH,
      FERMATA_TOKENS,
      FERMATA_OPERATOR_BIND: `127.0.0.1:${port}`,
    });
    try {
      const asks = (/** @type {string} */ host) =>
        new Promise((resolve, reject) => {
          http
            .get({ host: '127.0.0.1', port, path: '/metrics', headers: { host } }, (response) => {
              response.resume();
              resolve(response.statusCode);
            })
            .on('error', reject);
        });
      assert.equal(await asks('fermata-1:9090'), 200);
      assert.equal(await asks('fermata-2:9090'), 200);
      assert.equal(await asks('elsewhere:9090'), 403);
      assert.equal((await fetch(`${server.url}/metrics`)).status, 404);
    } finally {
      await server.discard();
    }
  });
});

describe('systemd', () => {
  /**
   * The lines of a unit, by key.
   *
   * @param {string} text
   * @returns {Map<string, string[]>}
   */
  function unit(text) {
    /** @type {Map<string, string[]>} */
    const found = new Map();
    for (const [, key = '', value = ''] of text.matchAll(/^(\w+)=(.*)$/gm))
      found.set(key, [...(found.get(key) ?? []), value]);
    return found;
  }

  const service = read('fermata.service');
  /** The same with the lines that an operator may add. */
  const complete = service.replace(/^# (?=LoadCredential=|Environment=)/gm, '');

  for (const [name, text] of Object.entries({ 'as it is': service, 'with every line': complete }))
    test(`the service has settings that the server takes, and time to end: ${name}`, () => {
      const made = folder();
      const lines = unit(text);
      for (const credential of lines.get('LoadCredential') ?? []) {
        const [id = '', file = ''] = credential.split(':');
        assert.ok(id in SECRETS, id);
        assert.equal(file, `/etc/fermata/secrets/${id}`);
        writeFileSync(path.join(made, id), `${SECRETS[/** @type {keyof typeof SECRETS} */ (id)]}\n`);
      }
      const pairs = (lines.get('Environment') ?? []).flatMap((line) => line.split(' '));
      const env = Object.fromEntries(pairs.map((pair) => pair.replace('%d', made).split('=')));
      assert.equal(
        Object.keys(env).filter((one) => one.endsWith('_FILE')).length,
        lines.get('LoadCredential')?.length,
      );

      const [start = ''] = lines.get('ExecStart') ?? [];
      const [, ...args] = start
        .replace('/etc/fermata/fermata.toml', path.join(DEPLOY, 'config/fermata.toml'))
        .split(' ');
      const settings = settingsIn(env, args);
      assert.equal(settings.auth, 'token');
      assert.match(settings.tokens ?? '', /alice/);
      assertEndsInTime(settings, Number(lines.get('TimeoutStopSec')?.[0]));
    });

  test('the guide installs the files that the units name', () => {
    for (const file of [
      '/usr/local/bin/fermata',
      '/etc/fermata/fermata.toml',
      '/etc/fermata/secrets/tokens',
    ]) {
      assert.ok(service.includes(file), file);
      assert.ok(guide.includes(file), file);
    }
    assert.deepEqual(unit(service).get('Requires'), ['fermata.socket']);
  });

  const hasAnalyze = spawnSync('systemd-analyze', ['--version']).status === 0;
  test(
    'systemd finds no fault in the units',
    { skip: hasAnalyze ? false : 'there is no systemd-analyze program' },
    () => {
      const made = folder();
      for (const [file, text] of Object.entries({
        'fermata.service': complete,
        'fermata.socket': read('fermata.socket'),
      }))
        writeFileSync(path.join(made, file), text.replace('/usr/local/bin/fermata', binary()));
      const units = ['fermata.service', 'fermata.socket'].map((file) => path.join(made, file));
      const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', ...units], {
        encoding: 'utf8',
      });
      assert.deepEqual([status, stdout + stderr], [0, '']);
    },
  );
});

describe('Kubernetes', () => {
  const FOLDER = path.join(DEPLOY, 'kubernetes');
  const load = (/** @type {string} */ file) => parse(read(`kubernetes/${file}`), { merge: true });
  const kustomization = load('kustomization.yaml');
  const deployment = load('deployment.yaml');
  const service = load('service.yaml');
  const pod = deployment.spec.template.spec;
  const [container] = pod.containers;

  /**
   * The environment of a container on this machine, with its secrets and its settings file in a folder.
   *
   * @param {Yaml} container
   * @param {Environment} [secrets]
   */
  function environment({ env, volumeMounts }, secrets = SECRETS) {
    const made = folder();
    const at = (/** @type {string} */ name) =>
      volumeMounts.find((/** @type {Yaml} */ mount) => mount.name === name).mountPath;
    mkdirSync(path.join(made, 'secrets'));
    mkdirSync(path.join(made, 'settings'));
    for (const [key, value] of Object.entries(secrets)) writeFileSync(path.join(made, 'secrets', key), value);
    for (const file of kustomization.configMapGenerator[0].files)
      cpSync(path.join(FOLDER, file), path.join(made, 'settings', file));
    /** @type {Environment} */
    const found = { ...imageEnvironment };
    for (const { name, value } of env)
      found[name] = value
        .replace(`${at('secrets')}/`, `${made}/secrets/`)
        .replace(`${at('settings')}/`, `${made}/settings/`);
    for (const [name, value] of Object.entries(found))
      if (name.endsWith('_FILE') || name === 'FERMATA_CONFIG')
        assert.ok(existsSync(value), `${name}: ${value}`);
    return found;
  }

  test('every container has settings that the server takes, and the pod has time to end', () => {
    for (const one of [...pod.initContainers, ...pod.containers]) {
      const settings = settingsIn(environment(one));
      assert.equal(settings.auth, 'token');
      assert.equal(settings.migrate, 'false');
      assert.ok(settings.database_url?.startsWith('postgres:'), settings.database_url);
      assertEndsInTime(settings, pod.terminationGracePeriodSeconds);
      const ports = Object.fromEntries(
        container.ports.map((/** @type {Yaml} */ port) => [port.name, String(port.containerPort)]),
      );
      assert.deepEqual(ports, { http: settings.port, operators: settings.operator_bind?.split(':').at(-1) });
    }
    assert.deepEqual(pod.initContainers[0].args, ['migrate']);
  });

  test(
    'a pod migrates an empty database, becomes ready, and shows metrics only with the operator token',
    { skip: NO_SERVICES ?? false, timeout: 60_000 },
    async () => {
      const [database, redis] = await Promise.all([Postgres.create(), Redis.start()]);
      const secrets = { ...SECRETS, 'database-url': database.url, 'redis-url': redis.url };
      const [port, operators] = [await freePort(), await freePort()];
      const server = new Server(port, {
        // The harness names a SQLite file, unless told otherwise.
        DATABASE_URL: '',
        ...environment(container, secrets),
        FERMATA_BIND: `127.0.0.1:${port}`,
        FERMATA_OPERATOR_BIND: `127.0.0.1:${operators}`,
      });
      try {
        const [init] = pod.initContainers;
        const migrated = spawnSync(binary(), init.args, {
          env: environment(init, secrets),
          encoding: 'utf8',
        });
        assert.equal(migrated.status, 0, migrated.stderr);
        await server.start();
        assert.equal((await fetch(`${server.url}/readyz`)).status, 200, server.log);
        const metrics = (/** @type {string} */ token) =>
          fetch(`http://127.0.0.1:${operators}/metrics`, { headers: { authorization: `Bearer ${token}` } });
        assert.equal((await metrics('another-0123456789abcdef')).status, 401);
        assert.equal((await metrics(SECRETS['operator-token'])).status, 200);
      } finally {
        await server.discard();
        await redis.stop();
        await database.drop();
      }
    },
  );

  test('the guide makes the Secret with every key that a container reads', () => {
    const made = [...guide.matchAll(/--from-literal=([\w-]+)=/g)].map(([, key]) => key);
    const asked = container.env
      .filter((/** @type {Yaml} */ one) => one.name.endsWith('_FILE'))
      .map((/** @type {Yaml} */ one) => path.basename(one.value));
    assert.deepEqual(made.toSorted(), asked.toSorted());
    const { authorization } = load('podmonitor.yaml').spec.podMetricsEndpoints[0];
    assert.ok(made.includes(authorization.credentials.key));
  });

  test('the probes ask paths that the server has, and the readiness is seen within the time to leave', async () => {
    const server = await Server.start({});
    try {
      for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
        const { path: asked, port } = container[probe].httpGet;
        assert.equal(port, 'http');
        assert.equal((await fetch(server.url + asked)).status, 200, probe);
      }
    } finally {
      await server.discard();
    }
    assert.equal(container.readinessProbe.httpGet.path, '/readyz');
    assert.equal(container.livenessProbe.httpGet.path, '/healthz');
    const { periodSeconds, failureThreshold } = container.readinessProbe;
    const { linger } = settingsIn(environment(container));
    assert.ok(periodSeconds * failureThreshold < seconds(linger));
  });

  test('no container runs as root, may become root or write to its own files', () => {
    assert.equal(pod.securityContext.runAsNonRoot, true);
    const [, user] = /^USER (\d+):\d+$/m.exec(dockerfile) ?? [];
    assert.equal(String(pod.securityContext.runAsUser), user);
    for (const { securityContext } of [...pod.initContainers, ...pod.containers])
      assert.deepEqual(securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
  });

  test('the objects refer to each other', () => {
    const labels = deployment.spec.template.metadata.labels;
    const monitor = load('podmonitor.yaml').spec;
    for (const selector of [
      deployment.spec.selector.matchLabels,
      service.spec.selector,
      load('poddisruptionbudget.yaml').spec.selector.matchLabels,
      pod.topologySpreadConstraints[0].labelSelector.matchLabels,
      monitor.selector.matchLabels,
    ])
      assert.deepEqual(selector, labels);
    const ports = container.ports.map((/** @type {Yaml} */ port) => port.name);
    assert.ok(ports.includes(service.spec.ports[0].targetPort));
    assert.ok(ports.includes(monitor.podMetricsEndpoints[0].port));
    // The alerts and the dashboard select this job.
    assert.equal(labels[monitor.jobLabel], 'fermata');
    const { rules, tls } = load('ingress.yaml').spec;
    const backend = rules[0].http.paths[0].backend.service;
    assert.deepEqual([backend.name, backend.port.name], [service.metadata.name, service.spec.ports[0].name]);
    assert.deepEqual(tls[0].hosts, [rules[0].host]);
    assert.deepEqual(
      kustomization.images.map((/** @type {Yaml} */ image) => image.name),
      [IMAGE],
    );
    for (const one of [...pod.initContainers, ...pod.containers]) assert.equal(one.image, IMAGE);
    const [settings, secrets] = pod.volumes;
    assert.equal(settings.configMap.name, kustomization.configMapGenerator[0].name);
    assert.match(guide, new RegExp(`create secret generic ${secrets.secret.secretName} `));
  });

  test('the kustomization has every file, the monitor only as a comment', () => {
    const files = readdirSync(FOLDER).filter(
      (file) => file.endsWith('.yaml') && file !== 'kustomization.yaml',
    );
    assert.deepEqual([...kustomization.resources, 'podmonitor.yaml'].toSorted(), files.toSorted());
    assert.match(read('kubernetes/kustomization.yaml'), /# - podmonitor\.yaml/);
  });
});
