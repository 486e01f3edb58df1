import { fileURLToPath } from 'node:url'

/**
 * Folder of the model that comes with the package: a decoder of 0.85 million parameters, in Hugging Face layout, that reads and answers
 * generated word problems. It was made by `npm run make:model` and answers barely, as a habit that reinforcement learning can break.
 */
export const EMBEDDED_MODEL = fileURLToPath(new URL('../../models/word-problems', import.meta.url))
