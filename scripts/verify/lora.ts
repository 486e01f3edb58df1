/**
 * Compares adapters with PEFT, both ways, on fresh models: `npm run verify -- lora [SEED]`, with
 * PEERS_VENV set to the peers' virtual environment and PEERS to the folder with its make_model.py.
 * Exits with 1 if logits differ by more than the limit.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { type Adapter, mergeLora, withLora } from '../../src/modules/lora/adapter.js'
import { type LoraConfig, loraConfig } from '../../src/modules/lora/config.js'
import { adapterFiles, loadAdapter } from '../../src/modules/lora/peft.js'
import { storedLayout } from '../../src/modules/lora/projections.js'
import { loadWeights, makeParams } from '../../src/modules/pretrained/pretrained.js'
import { logitsOfRows, randomAdapter, readAdaptedLogits } from '../../test/kit/lora.js'

/** Largest difference of a logit. */
const LIMIT = 2e-4
const FAMILIES = ['qwen2', 'llama', 'gpt2', 'phi3', 'gemma3']
const ROUNDS = 2

const { PEERS_VENV: venv, PEERS: peers } = process.env
if (venv === undefined || peers === undefined) {
  console.error(
    'set PEERS_VENV to a virtual environment with peft and torch, and PEERS to the folder with make_model.py',
  )
  process.exit(2)
}
const first = Number(process.argv[2] ?? Date.now() % 1_000_000)
const python = (...args: readonly string[]): void => {
  execFileSync(join(venv, 'bin/python'), args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, TQDM_DISABLE: '1' },
  })
}
await selectBackend()

const SETTINGS: readonly LoraConfig[] = [
  loraConfig({ rank: 4 }),
  loraConfig({ rank: 3, alpha: 5, scaling: 'alpha/sqrt(rank)', layers: [1], dropout: 0.1 }),
]

/**
 * Returns the largest difference to the logits that PEFT computed with the adapter of the same
 * folder.
 */
const gapOf = async (
  base: string,
  folder: string,
): Promise<{ readonly adapted: number; readonly merged: number; readonly change: number }> => {
  const { config, arrays } = orThrow(await loadWeights(base)())
  const { adapter } = orThrow(await loadAdapter(folder, config)())
  const { input_ids, logits, change } = readAdaptedLogits(folder)
  const wanted = logits.flat(2)
  return scope(() => {
    const [params, lora] = [makeParams(arrays), { config: adapter.config, tensors: makeParams(adapter.arrays) }]
    const [adapted, merged] = [withLora(params, lora), mergeLora(config, params, lora)].map((all) => {
      const actual = logitsOfRows(all, config, input_ids)
      return wanted.reduce((worst, x, i) => Math.max(worst, Math.abs(x - actual[i]!)), 0)
    })
    return { adapted: adapted!, merged: merged!, change }
  })
}

const folder = mkdtempSync(join(tmpdir(), 'tandem-lora-'))
try {
  for (const family of FAMILIES) {
    for (let seed = first; seed < first + ROUNDS; seed++) {
      const base = join(folder, `${family}-${seed}`)
      python(join(peers, 'make_model.py'), '--family', family, '--seed', String(seed), '--out', base)
      const theirs = join(folder, `${family}-${seed}-theirs`)
      python('scripts/verify/peers/lora.py', 'make', base, theirs, String(seed))
      const ours = join(folder, `${family}-${seed}-ours`)
      const { config } = orThrow(await loadWeights(base)())
      const adapter: Adapter = randomAdapter(config, SETTINGS[seed % SETTINGS.length]!, keyFromSeed(seed)) // not empty
      orThrow(
        await liveFiles.writeFolder(ours, adapterFiles(adapter, { baseModel: base, layout: storedLayout(config) }))(),
      )
      python('scripts/verify/peers/lora.py', 'logits', base, ours)
      for (const [origin, place] of [
        ['PEFT', theirs],
        ['Tandem', ours],
      ] as const) {
        const gap = await gapOf(base, place)
        const ok = gap.adapted <= LIMIT && gap.merged <= LIMIT && gap.change > 100 * LIMIT
        console.log(JSON.stringify({ family, seed, origin, ...gap, ok }))
        if (!ok) process.exitCode = 1
      }
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
