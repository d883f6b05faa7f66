// Fermata for pages that use the AI SDK's chat, version 5, 6 or 7.
import { ChatFollower } from './chat.js';
import { Server } from './server.js';
export { FermataError } from './server.js';
export { FermataTransport } from './transport.js';
/** Connects chats with a Fermata server. */
export function fermata(options = {}) {
    const server = new Server(options);
    return {
        chat: (Chat, init) => {
            const follower = new ChatFollower(options, init.id);
            return follower.attach(new Chat({ ...init, ...follower.init(init) }));
        },
        request: (path, init) => server.json(path, init),
    };
}
//# sourceMappingURL=index.js.map