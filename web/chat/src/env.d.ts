declare module "*.css";
/** The SDK looks for Node's buffers where there are some; here there are none. */
declare const Buffer: any;
interface Buffer extends Uint8Array { toString(encoding?: string, start?: number, end?: number): string }
declare module "*.wasm?url" { const url: string; export default url; }
