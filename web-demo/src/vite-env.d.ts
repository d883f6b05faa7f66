/// <reference types="vite/client" />

/** The address of the page that draws diagrams (vite.config.ts makes it). */
declare module 'virtual:diagram' {
  const address: string;
  export default address;
}
