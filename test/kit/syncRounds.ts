/**
 * Many updates of real engines while requests run: each verified, and every sample with the version
 * that sampled it.
 */
import { child, keyFromSeed, normals, uniformInteger } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { EngineUpdater } from '../../src/collectors/updaters/engineUpdater.js'
import type { EngineClient } from '../../src/data/engineClient.js'
import { collectEvents } from '../../src/modules/generation/generateAll.js'
import { DEFAULT_SAMPLING } from '../../src/modules/generation/sampling/params.js'
import { withLora } from '../../src/modules/lora/adapter.js'
import { type LoraConfig, loraConfig } from '../../src/modules/lora/config.js'
import { makeParams } from '../../src/modules/pretrained/pretrained.js'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import type { Params } from '../../src/modules/transformer/params.js'
import { makeScorer } from '../../src/modules/transformer/scorer.js'
import { randomAdapter } from './lora.js'

type Arrays = Parameters<typeof makeParams>[0]

/** A model, and weights of it for every version that depend on the number alone. */
export interface Versions {
  readonly config: DecoderConfig
  /** Tensors that belong to the enclosing scope. */
  readonly weights: (version: number) => Params
}

/** The base with a random adapter of rank 4 for each version; the base alone for version 0. */
export const loraVersions = (
  config: DecoderConfig,
  base: Arrays,
  targetModules: LoraConfig['targetModules'] = 'all-linear',
): Versions => ({
  config,
  weights: (version) => {
    const params = makeParams(base)
    if (version === 0) return params
    const lora = loraConfig({ rank: 4, alpha: 8, targetModules })
    const { arrays } = randomAdapter(config, lora, keyFromSeed(version))
    return withLora(params, { config: lora, tensors: makeParams(arrays) })
  },
})

/**
 * The base with all its numbers changed a little for each version; the base itself for version 0.
 */
export const fullVersions = (config: DecoderConfig, base: Arrays): Versions => ({
  config,
  weights: (version) => {
    if (version === 0) return makeParams(base)
    const key = keyFromSeed(version)
    const changed = [...base].map(([name, { shape, data }]) => {
      const noise = normals(child(key, name), data.length)
      return [name, { shape, data: Float32Array.from(data, (x, i) => x * (1 + 0.1 * noise[i]!)) }] as const
    })
    return makeParams(new Map(changed))
  },
})

interface Sample {
  readonly version: number
  readonly prompt: readonly number[]
  readonly ids: readonly number[]
  readonly logProbs: readonly number[]
}

/** The results of the rounds. */
export interface SyncRounds {
  /** Nats, at any server after any push. */
  readonly worstProbeGap: number
  /** Nats, between a sample and the trainer's numbers for the version that it is stamped with. */
  readonly worstSampleGap: number
  readonly samples: number
  /** Versions of completions that more than one has sampled. */
  readonly mixed: number
  /** Requests that were not answered. */
  readonly failed: number
  /** Versions that samples were stamped with. */
  readonly versions: ReadonlySet<number>
  readonly pushMs: readonly number[]
}

const sampleOf = async (
  client: EngineClient,
  config: DecoderConfig,
  n: number,
): Promise<Sample | 'mixed' | 'failed'> => {
  const key = child(keyFromSeed(99), n)
  const prompt = Array.from({ length: 4 }, (_, t) => uniformInteger(key, config.vocabularySize, t))
  const sampling = { ...DEFAULT_SAMPLING, key, maxTokens: 6, endTokens: 'ignore' as const }
  const request = { id: `sync-${n}`, prompt: Int32Array.from(prompt), sampling, adapter: null, cacheSalt: '' }
  const answer = await collectEvents(client.generate(request), 1)
  if (answer._tag === 'Left') return 'failed'
  const { tokens } = answer.right.completions[0]!
  const [version] = [...new Set(tokens.map((token) => token.version))]
  if (tokens.some((token) => token.version !== version)) return 'mixed'
  const logProbs = tokens.map((token) => token.rawLogProb)
  return { version: version!, prompt, ids: tokens.map(({ id }) => id), logProbs }
}

/** Pushes versions 1 to `rounds` one after the other, while `parallel` requests run at any time. */
export const syncRounds = async (
  { config, weights }: Versions,
  { clients, updater }: { readonly clients: readonly EngineClient[]; readonly updater: EngineUpdater<Params> },
  { rounds, parallel }: { readonly rounds: number; readonly parallel: number },
): Promise<SyncRounds> => {
  const samples: Sample[] = []
  let [isOver, asked, mixed, failed, worstProbeGap] = [false, 0, 0, 0, 0]
  const askers = Array.from({ length: parallel }, async (_, i) => {
    while (!isOver) {
      const sample = await sampleOf(clients[i % clients.length]!, config, asked++)
      if (sample === 'mixed') mixed++
      else if (sample === 'failed') failed++
      else samples.push(sample)
      await new Promise((resolve) => setImmediate(resolve))
    }
  })
  const pushMs: number[] = []
  try {
    for (let version = 1; version <= rounds; version++) {
      using owned = own(scope(() => weights(version)))
      const start = performance.now()
      requireRight(await updater.push(owned.value, version)())
      pushMs.push(performance.now() - start)
      for (const { gap } of updater.report()!.servers) worstProbeGap = Math.max(worstProbeGap, gap?.worst ?? Infinity)
      // At least one request of each version.
      const before = samples.length
      while (samples.length === before) await new Promise((resolve) => setImmediate(resolve))
    }
  } finally {
    isOver = true
    await Promise.all(askers)
  }
  return {
    ...{ worstProbeGap, samples: samples.length, mixed, failed, pushMs },
    worstSampleGap: worstGap({ config, weights }, samples),
    versions: new Set(samples.map(({ version }) => version)),
  }
}

/** The largest difference between samples and what the versions that they are stamped with say. */
const worstGap = ({ config, weights }: Versions, samples: readonly Sample[]): number => {
  const scorer = makeScorer(config)
  let worst = 0
  for (const version of new Set(samples.map((sample) => sample.version))) {
    const own = samples.filter((sample) => sample.version === version)
    const prompts = own.map(({ prompt }) => prompt)
    const completions = own.map(({ ids }) => ids)
    const rows = scope(() => scorer.score(weights(version), { prompts, completions, temperature: 1 }))
    for (const [i, row] of rows.entries())
      for (const [t, x] of row.entries()) worst = Math.max(worst, Math.abs(x - own[i]!.logProbs[t]!))
  }
  scorer.release()
  return worst
}
