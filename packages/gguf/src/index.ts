/**
 * For those who read models in GGUF: metadata and tensors, with quantized blocks restored to
 * float32, and the same model in the terms of Hugging Face's files.
 *
 * @module
 */
export { type GgufType, restoreBlocks } from './blocks.js'
export { GGUF_LIMITS, type GgufEntry, type GgufScalar, type GgufValue } from './header.js'
export { type GgufModel, openGgufModel } from './huggingFace/model.js'
export type { TokenizerFiles } from './huggingFace/tokenizer.js'
export { type GgufArray, type GgufReadFailure, type OpenGguf, openGguf } from './openGguf.js'
