// @ts-check
// A run that ends the process each time it is worked on: the stand-in for the model kills the server when it
// is asked.

import assert from 'node:assert/strict';
import { says } from '../harness/fake-openai.mjs';
import { scenario } from '../harness/scenario.mjs';
import { until } from '../harness/until.mjs';

scenario(
  'a run that kills its server each time is given up at the third take-up',
  { versions: [6] },
  async (world) => {
    const { model, server } = world;
    model.improvise = () => async (pen) => {
      server.signal('SIGKILL');
      await pen.gone;
    };
    const body = JSON.stringify({ id: world.id, message: { role: 'user', content: 'end it all' } });
    await fetch(`${server.url}/api/chat`, { method: 'POST', body })
      .then((response) => response.text())
      .catch(() => undefined);
    for (let kills = 1; kills <= 3; kills += 1) {
      await until(
        () => model.requests.length === kills && !server.alive,
        () => `the ${kills}. kill; ${server.log}`,
      );
      await server.start().catch(() => undefined);
    }
    const isOpen = async () => {
      const response = await fetch(`${server.url}/api/chat/${world.id}`);
      return /** @type {{ open: boolean }} */ (await response.json()).open;
    };
    await until(
      async () => server.alive && !(await isOpen()),
      () => `the end of the run; ${server.log}`,
    );
    assert.equal(model.requests.length, 3, 'the model is not asked again');
    await until(() => /the run is given up/.test(server.log), 'a word about it in the log');

    model.improvise = () => says('Here I am.');
    const stream = await world.post('hello?');
    await stream.toEnd();
    assert.ok(stream.done);
  },
);
