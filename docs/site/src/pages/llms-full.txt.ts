import { full } from '../llms.ts';

export const GET = () => new Response(full());
