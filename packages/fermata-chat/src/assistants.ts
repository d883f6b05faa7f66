// The assistants that a server offers.

import { FermataError, type Server } from './server.js';

/** An assistant. The operator's instructions for the model are not part of it. */
export interface Assistant {
  /** The name that the option `assistant` takes. */
  name: string;
  /** The title for people. */
  title: string;
  /** The names of its models, which the option `model` chooses. The first answers if a chat has chosen none. */
  models: string[];
  /** Messages that a page may suggest for a beginning. */
  suggestions: string[];
}

/** The assistant and the model that a chat has chosen. An absent field was never chosen: then the default answers. */
export interface Chosen {
  assistant?: string;
  model?: string;
}

/** Lists the assistants, with `default` first. The list is empty if the server is of a version that has none. */
export async function listAssistants(server: Server): Promise<Assistant[]> {
  try {
    const { assistants } = await server.json<{ assistants: Assistant[] }>(server.beside('assistants'));
    return assistants;
  } catch (error) {
    if (error instanceof FermataError && error.status === 404) return [];
    throw error;
  }
}
