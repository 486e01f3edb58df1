/** Numbers in memory with a shape, row-major, in the types of the engine. */
export interface HostArray {
  readonly shape: readonly number[]
  readonly data: Float32Array | Int32Array
}
