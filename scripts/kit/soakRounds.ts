/** Rounds of the soak test. Each exercises a part of training end to end and cleans up. */
import { rmSync } from 'node:fs'
import { child, type Key, keyFromSeed, orThrow, uniform } from '@tandem-rl/base'
import { liveHttpServer } from '@tandem-rl/host'
import { serveApp } from '@tandem-rl/serve'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { Policy, TokenAction, TokenPrompt } from '../../src/data/policy.js'
import type { NamedTensors } from '../../src/doors/files.js'
import { makeParams } from '../../src/doors/models.js'
import { vLLMClient, vLLMUpdater, vLLMWrapper } from '../../src/doors/remote.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { tokenEnv } from '../../src/envs/tokenEnv.js'
import * as T from '../../src/index.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import type { FolderEngineOptions } from '../../src/modules/generation/folderEngine.js'
import { LLMOnDevice } from '../../src/modules/generation/onDevice.js'
import type { Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { followRecipe } from './recipeRuns.js'

/** The inputs of a round. */
export interface SoakWorld {
  readonly model: Pretrained
  /** Of the round alone; it may leave files there. */
  readonly folder: string
  readonly key: Key
  /** To be called between two pieces of work: leaves the processor to others. */
  readonly rest: () => Promise<void>
}

/** The completed work. */
export interface Work {
  readonly steps: number
  readonly evaluations: number
  readonly checkpoints: number
  readonly resumes: number
  /** Groups of rollouts that were given out, and those that failed. */
  readonly groups: number
  readonly failures: number
}

export const NO_WORK: Work = { steps: 0, evaluations: 0, checkpoints: 0, resumes: 0, groups: 0, failures: 0 }

export const addWork = (a: Work, b: Work): Work => ({
  steps: a.steps + b.steps,
  evaluations: a.evaluations + b.evaluations,
  checkpoints: a.checkpoints + b.checkpoints,
  resumes: a.resumes + b.resumes,
  groups: a.groups + b.groups,
  failures: a.failures + b.failures,
})

export type Round = (world: SoakWorld) => Promise<Work>

type Flags = Readonly<Record<string, unknown>>

const SMALL = {
  ...{ steps: 6, prompts: 4, group: 4, maxNewTokens: 32, evalEvery: 3, evalTasks: 16, checkpointEvery: 2 },
}

/** Runs one session, until the end of the run or of step `stopAt`. */
const session = async (
  folder: string,
  flags: Flags,
  { rest, stopAt }: Pick<SoakWorld, 'rest'> & { readonly stopAt?: number },
): Promise<Work> => {
  const abort = new AbortController()
  let work = NO_WORK
  const count = (more: Partial<Work>): void => {
    work = addWork(work, { ...NO_WORK, ...more })
  }
  await followRecipe('wordProblems', {
    ...{ folder, flags, signal: abort.signal },
    onEvent: async (event) => {
      if (event.type === 'step') {
        count({ steps: 1 })
        if (event.step === stopAt) abort.abort()
      }
      if (event.type === 'evaluation') count({ evaluations: 1 })
      if (event.type === 'checkpoint') count({ checkpoints: 1 })
      await rest()
    },
  })
  return work
}

/** Stops a run after a random step and resumes it to its end, with summary and report. */
const stoppedRun =
  (changes: Flags): Round =>
  async ({ folder: place, key, rest }) => {
    const folder = `${place}/run`
    const seed = Math.floor(uniform(key) * 2 ** 31)
    const flags = { ...SMALL, seed, ...changes }
    const first = await session(folder, flags, { rest, stopAt: 1 + (seed % (SMALL.steps - 1)) })
    const second = await session(folder, flags, { rest })
    return addWork(addWork(first, second), { ...NO_WORK, resumes: 1 })
  }

/** Share of conversations that fail for external reasons. */
const FAILURE_SHARE = 0.1

/** The same policy over a bad connection. */
const failing = (policy: Policy<TokenPrompt, TokenAction>): Policy<TokenPrompt, TokenAction> => {
  let calls = 0
  const chance = child(keyFromSeed(0), 'failures')
  return {
    name: `failing ${policy.name}`,
    act: (td, key, options) => {
      if (uniform(chance, calls++) >= FAILURE_SHARE) return policy.act(td, key, options)
      return async () =>
        E.left({ _tag: 'PolicyFailure', policy: policy.name, kind: 'infrastructure', reason: 'the line was cut' })
    },
  }
}

const TASKS = 12
const GROUP = 4

/** Trains on groups in the order of completion, with a policy that fails occasionally. */
const learnFromRollouts = async (
  { model, key, rest }: SoakWorld,
  remote: Policy<TokenPrompt, TokenAction>,
  push: (weights: NamedTensors, version: number) => Promise<unknown>,
): Promise<Work> => {
  const problems = T.wordProblems(key, { split: 'rl' })
  const run = T.LLMCollector({
    env: (task) => tokenEnv(GSM8KEnv({ source: problems, prompts: 1, repeats: GROUP, start: task }), model.text),
    policy: failing(remote),
    key,
    batches: { dialogTurnsPerBatch: 4 * GROUP },
    concurrent: {
      ...{ tasks: TASKS, maxInFlight: 8, tokenBudget: 64, maxFailureShare: 1 },
      ...{ onFailure: { retry: 1, pauseMs: 1 }, deadlineMs: 300_000 },
    },
  }).begin()
  const optimizer = T.adamW({ learningRate: 1e-4 })
  const learner = T.localLearner({ model, key, optimizer, loss: T.GRPOLoss() })
  const advantage = T.MCAdvantage({ groupSize: GROUP })
  let work = NO_WORK
  try {
    for (let taken = orThrow(await run.next()); taken._tag === 'Batch'; taken = orThrow(await run.next())) {
      const { tasks, failed, batch: owned } = taken
      using batch = owned
      using rated = own(scope(() => advantage(batch.value)))
      orThrow(await learner.update(rated.value)())
      work = addWork(work, { ...NO_WORK, steps: 1, groups: tasks.length, failures: failed.length })
      await push(learner.weights(), work.steps)
      await rest()
    }
    return work
  } finally {
    await run.close()
    await learner.close()
  }
}

/** Rollouts in this process. */
const rolloutsHere: Round = async (world) => {
  const { config, arrays } = world.model
  const policy = scope(() =>
    T.TransformersWrapper({ config, params: makeParams(arrays), sampling: { maxNewTokens: 32 } }),
  )
  const updater = T.inProcessUpdater(policy)
  try {
    return await learnFromRollouts(world, policy, async (params, version) =>
      orThrow(await updater.push(params, version)()),
    )
  } finally {
    policy.release()
  }
}

/** The engine of the shipped model on a thread of its own. */
const threadEngine = LLMOnDevice(
  {
    module: new URL('../../src/modules/generation/folderEngine.ts', import.meta.url).href,
    exportName: 'folderEngine',
    options: { folder: EMBEDDED_MODEL, threads: 1 } satisfies FolderEngineOptions,
  },
  { weights: 'move' },
)

/**
 * Samples rollouts over HTTP from an engine on its own thread, which gets new weights after each
 * step. Starts and stops everything.
 */
const rolloutsOverHttp: Round = async (world) => {
  const { config, text } = world.model
  const engine = orThrow(await threadEngine())
  const app = serveApp({
    engine,
    model: { names: ['policy'], root: EMBEDDED_MODEL },
    text,
    key: world.key,
    features: { control: 'on' },
  })
  const server = orThrow(await liveHttpServer(app.fetch, { port: 0, refusal: (_, reason) => reason })())
  const client = vLLMClient({ url: server.url, model: 'policy', sharedFolder: world.folder })
  const stopTokens = [text.tokenizer.idOf(text.endOfTurn)!]
  const policy = vLLMWrapper({ clients: [client], sampling: { maxTokens: 32, stopTokens } })
  const checkpoints = { folder: world.folder, text }
  const updater = vLLMUpdater({ clients: [client], how: 'full', model: { config, checkpoints } })
  try {
    return await learnFromRollouts(world, policy, async (params, version) =>
      orThrow(await updater.push(params, version)()),
    )
  } finally {
    updater.release()
    await client.close()
    await server.close({ graceMs: 1000, atLimit: async () => void (await engine.abort()) })
    await engine.close()
  }
}

/** In turns. */
export const ROUNDS: readonly (readonly [name: string, round: Round])[] = [
  ['run', stoppedRun({})],
  ['rollouts', rolloutsHere],
  ['dapo', stoppedRun({ algorithm: 'dapo', epochs: 2, miniBatches: 2, oldLogProbs: 'rescored', klCoefficient: 0.01 })],
  ['server', rolloutsOverHttp],
  ['adapter', stoppedRun({ loraRank: 4, optimizer: 'muon', recompute: 'layers', dtype: 'BF16' })],
]

/** One round in a folder of its own, which is removed. */
export const playRound = async (round: Round, world: SoakWorld): Promise<Work> => {
  try {
    return await round(world)
  } finally {
    rmSync(world.folder, { recursive: true, force: true })
  }
}
