import { index } from '../llms.ts';

export const GET = () => new Response(index());
