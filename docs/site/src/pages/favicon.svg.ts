import icon from '../../../../web-demo/public/favicon.svg?raw';

export const GET = () => new Response(icon, { headers: { 'content-type': 'image/svg+xml' } });
