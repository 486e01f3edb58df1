import { fileURLToPath } from 'node:url'

/**
 * Folder of the built-in model: a decoder with 0.85 million parameters, in Hugging Face layout,
 * that answers generated word problems. It was made by `npm run make -- model`. It answers without
 * reasoning, a habit that reinforcement learning can change.
 */
export const EMBEDDED_MODEL = fileURLToPath(new URL('../../models/word-problems', import.meta.url))
