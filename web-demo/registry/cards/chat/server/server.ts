// The requests of the cards that go past the chat. If your page has options for its requests, such as headers, give them here.

import { fermata } from 'fermata-chat';

export const server = fermata();
export const API = '/api/chat';

export { loadWaiting as tellServerEvent } from './chats';
