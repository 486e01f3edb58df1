/**
 * Names that the declarations of tfjs-core 4.22 mention, and that its dependency `@webgpu/types`
 * declares in conflict with TypeScript's own library. Projects whose configuration extends
 * `tandem-rl/tsconfig.json` read this file instead. In programs with the library `dom`, these
 * interfaces merge with those of the library and add nothing to them.
 */
interface Long {
  readonly low: number
  readonly high: number
  readonly unsigned: boolean
}
interface GPUBuffer {}
interface GPUDevice {}
interface HTMLCanvasElement {}
interface HTMLImageElement {}
interface HTMLSourceElement {}
interface HTMLVideoElement {}
interface IDBFactory {}
interface ImageBitmap {}
interface ImageData {}
interface Navigator {}
interface Storage {}
interface WebGLContextAttributes {}
interface WebGLRenderingContext {}
interface WebGLTexture {}
