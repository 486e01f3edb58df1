/** The memory of a page, in place of `../memory.ts`. */
import type * as node from '../memory.js'

/** Half of what WebAssembly can address: browsers do not report what is free. */
export const liveMemory: typeof node.liveMemory = { free: () => 2 ** 31, reserve: () => () => undefined }
