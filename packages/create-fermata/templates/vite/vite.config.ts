import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const fermata = process.env.FERMATA_URL ?? 'http://127.0.0.1:4000';
const server = {
  port: Number(process.env.PORT ?? 5173),
  strictPort: true,
  proxy: { '/api': fermata, '/chat/tool-result': fermata },
};

export default defineConfig({ plugins: [react(), tailwindcss()], server, preview: server });
