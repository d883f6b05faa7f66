// The version of the AI SDK in this page. Newer ones know chunks and fields that older ones refuse, and only the
// client can tell.
import ai from 'ai/package.json' with { type: 'json' };
export const AI_VERSION = ai.version;
//# sourceMappingURL=version.js.map