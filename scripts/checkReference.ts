/**
 * Compares the decoder with Hugging Face Transformers on fresh checkpoints: `npm run check:reference -- FOLDER ...`, where each folder was
 * made by the peers' make_model.py. Exits with 1 if a difference is above its limit.
 */
import { selectBackend } from '../src/engine/select.js'
import { compareWithReference } from '../test/kit/reference.js'

/** Largest differences that are accepted. */
const LIMITS = { logits: 1e-4, loss: 1e-5, gradNorm: 1e-3, greedyTokensDiffering: 0 } as const

const folders = process.argv.slice(2)
if (folders.length === 0) {
  console.error('usage: npm run check:reference -- FOLDER ...')
  process.exit(2)
}
const { backend } = await selectBackend()
for (const folder of folders) {
  const gap = await compareWithReference(folder)
  const names = ['logits', 'loss', 'gradNorm', 'greedyTokensDiffering'] as const
  const over = names.filter((name) => !(gap[name] <= LIMITS[name]))
  console.log(JSON.stringify({ folder, backend, ...gap, ok: over.length === 0 }))
  if (over.length > 0) process.exitCode = 1
}
