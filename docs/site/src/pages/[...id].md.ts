import type { APIRoute } from 'astro';
import { idOf } from '../documents.ts';
import { allFiles, textOf } from '../llms.ts';

export const getStaticPaths = () =>
  allFiles().map((file) => ({ params: { id: idOf(file) }, props: { file } }));

export const GET: APIRoute<{ file: string }> = ({ props }) => new Response(textOf(props.file));
