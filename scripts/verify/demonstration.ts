/**
 * Trains a pretrained model on short tasks with Tandem and with TRL, from the same prompts, rewards
 * and settings: `npm run verify -- demonstration MODEL.gguf FOLDER`, with PEERS_VENV set to a
 * virtual environment with TRL and PEFT. FOLDER holds the same weights for Transformers.
 *
 * Each run writes a file in docs/data/demonstration; runs that have one are skipped. Without
 * PEERS_VENV, only Tandem's runs are made. `--only TEXT` makes those whose name contains a text.
 * `npm run make -- demonstration` writes pictures and tables from the files.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { hasResult, KINDS, nameOf, type RunName, SIDES, TASKS, writeResult } from '../kit/demonstration.js'
import { demonstrate, evaluate } from '../kit/demonstrationRuns.js'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: 'string', default: '' } },
})
const [model, folder] = positionals
const { PEERS_VENV: venv } = process.env
if (model === undefined || folder === undefined) throw new RangeError('expected MODEL.gguf and FOLDER')
const places = { model, folder, python: join(venv ?? '', 'bin/python') }

/** All runs, those first that show most. */
const runs: readonly RunName[] = [0, 1, 2]
  .flatMap((seed) =>
    SIDES.flatMap((side) => KINDS.flatMap((kind) => TASKS.map((task) => ({ task, side, kind, seed })))),
  )
  .sort((a, b) => rank(a) - rank(b))

/** TRL's runs of all weights, and its further seeds, come last. */
function rank({ side, kind, seed }: RunName): number {
  if (side === 'tandem') return seed === 0 ? 0 : 2 + seed
  if (seed > 0) return 5 + seed
  return kind === 'lora' ? 1 : 5
}

for (const task of TASKS) {
  const name = `${task}-untrained`
  if (!hasResult(name)) writeResult(name, await evaluate(task, ['--model', model]))
}
for (const run of runs) {
  const name = nameOf(run)
  if (hasResult(name) || !name.includes(values.only) || (run.side === 'trl' && venv === undefined)) continue
  const result = await demonstrate(run, places)
  writeResult(name, result)
  const { steps, heldOut, peakMiB } = result
  console.log(JSON.stringify({ name, rewards: steps.map(({ reward }) => reward), heldOut, peakMiB }))
}
