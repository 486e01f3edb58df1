/**
 * Times whole GRPO steps with sampling beside learning, against steps in turns: seconds for a
 * step, with an engine on a thread or one far away.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { child, keyFromSeed, median, orThrow, uniform, uniformInteger } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { scriptedEnv, scriptedPolicy } from '@tandem-rl/testing'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { Command } from 'commander'
import { right } from 'fp-ts/lib/Either.js'
import type * as TE from 'fp-ts/lib/TaskEither.js'
import { inFlightUpdater } from '../src/collectors/overlap/inFlightUpdater.js'
import { rolloutGroups } from '../src/collectors/overlap/rolloutGroups.js'
import { sampleAhead } from '../src/collectors/overlap/samplerAhead.js'
import { decoderForms } from '../src/collectors/updaters/decoderForms.js'
import { encodeSafetensors } from '../src/data/codecs/safetensors.js'
import type { Policy, TokenAction, TokenPrompt } from '../src/data/policy.js'
import type { NamedTensors } from '../src/data/weights.js'
import { localLearner } from '../src/learners/localLearner.js'
import { folderEngineModule } from '../src/modules/generation/folderEngine.js'
import { LLMOnDevice } from '../src/modules/generation/onDevice.js'
import { enginePolicy } from '../src/modules/generation/policy/enginePolicy.js'
import { hostArrays } from '../src/modules/pretrained/pretrained.js'
import { sharedParams } from '../src/modules/pretrained/sharedParams.js'
import { localClient } from '../src/modules/remote/localClient.js'
import { formatConfig } from '../src/modules/transformer/config.js'
import { MCAdvantage } from '../src/objectives/advantages/mcAdvantage.js'
import { GRPOLoss } from '../src/objectives/grpoLoss.js'
import { adamW } from '../src/objectives/updates/adamW.js'
import { randomModel } from './shared/batch.js'
import { benchConfig, randomIds } from './shared/settings.js'

/** An engine on a thread samples, at most so many updates behind: with 0, sampling and learning wait for each other. */
const MODES = ['lag0', 'lag1', 'lag2'] as const
type Mode = (typeof MODES)[number]

const count = (text: string): number => Math.max(1, Math.round(Number(text)))

const options = new Command()
  .description(
    'GRPO steps on random prompts with a random reward, sampled beside learning: waiting for each other, or at most so many updates behind.',
  )
  .option('--prompts <n>', '', count, 16)
  .option('--group <n>', '', count, 8)
  .option('--prompt <n>', 'tokens of a prompt', count, 32)
  .option('--new-tokens <n>', 'tokens of a completion', count, 64)
  .option('--hidden <n>', '', count, 128)
  .option('--layers <n>', '', count, 4)
  .option('--threads <n>', 'cores, half of them for the engine; with one elsewhere all are for learning', count, 2)
  .option(
    '--latency <ms>',
    'take an engine elsewhere that answers any request after this time, in the place of a real one',
    Number,
  )
  .option('--steps <n>', 'steps of a run that are timed', count, 5)
  .option('--warmup <n>', 'steps before them', count, 2)
  .option('--rounds <n>', 'how often the modes take turns', count, 3)
  .option('--mode <name>', 'this mode alone, in this process')
  .parse()
  .opts<
    {
      readonly [K in
        | 'prompts'
        | 'group'
        | 'prompt'
        | 'newTokens'
        | 'hidden'
        | 'layers'
        | 'threads'
        | 'steps'
        | 'warmup'
        | 'rounds']: number
    } & { readonly latency?: number; readonly mode?: Mode }
  >()

const { prompts, group, newTokens, threads } = options
const config = benchConfig({ hidden: options.hidden, layers: options.layers, heads: 4, kvHeads: 2, vocab: 256 })
const key = keyFromSeed(1)

/** A policy and how it gets weights. */
interface Sampler {
  readonly policy: Policy<TokenPrompt, TokenAction>
  readonly push: (
    weights: NamedTensors,
    version: number,
  ) => TE.TaskEither<{ _tag: 'WeightFailure'; receiver: string; reason: string }, number>
  readonly close: () => Promise<void>
}

/** Answers with random ids after some time, however many ask, and takes weights at once. */
const elsewhere = (latencyMs: number): Sampler => {
  let version = 0
  return {
    policy: {
      name: 'elsewhere',
      act: (state, at) => async () => {
        const policyVersion = version
        await setTimeout(latencyMs)
        const answers = () => Array.from({ length: newTokens }, (_, t) => uniformInteger(at, 200, t))
        return scriptedPolicy({ policyVersion, answers }).act(state, at)()
      },
    },
    push: (_, next) => async () => {
      version = next
      return right(next)
    },
    close: async () => {},
  }
}

const onThread = async (params: NamedTensors): Promise<Sampler> => {
  const folder = mkdtempSync(join(tmpdir(), 'tandem-overlap-'))
  writeFileSync(join(folder, 'config.json'), JSON.stringify(formatConfig(config)))
  writeFileSync(join(folder, 'model.safetensors'), encodeSafetensors(scope(() => hostArrays(params))))
  const limits = { maxConcurrent: prompts * group }
  const module = folderEngineModule({ folder, text: 'absent', threads: Math.max(1, Math.floor(threads / 2)), limits })
  const engine = orThrow(await LLMOnDevice(module, { weights: 'move' })())
  rmSync(folder, { recursive: true })
  const client = localClient(engine, 'thread')
  const forms = decoderForms({ config })
  const sampling = { maxTokens: newTokens, minTokens: newTokens }
  return {
    policy: enginePolicy({ engine: client, sampling, mixedVersions: 'each' }),
    push: inFlightUpdater({ engine, weights: forms }).push,
    close: async () => {
      forms.release()
      await client.close()
    },
  }
}

/** Seconds for a step, on average over the timed ones. */
const time = async (mode: Mode): Promise<number> => {
  const isHere = options.latency === undefined
  await selectBackend({ threads: isHere ? Math.max(1, threads - Math.floor(threads / 2)) : threads })
  const model = await randomModel(config)
  using params = sharedParams(model)
  const sampler = isHere ? await onThread(params.value) : elsewhere(options.latency)
  const env = (task: number) =>
    scriptedEnv(
      Array.from({ length: group }, (_, i) => ({
        rewards: [uniform(child(key, task), i)],
        prompt: [...randomIds(task, options.prompt, config.vocabularySize)],
        groupId: `${task}`,
      })),
    )
  const source = rolloutGroups({ env, policy: sampler.policy, key })
  const learner = localLearner({
    ...{ model, key, loss: GRPOLoss(), optimizer: adamW({ learningRate: 1e-4 }) },
  })
  const advantage = MCAdvantage({ groupSize: group })
  const rules = {
    groups: prompts,
    maxLag: Number(mode.slice(3)),
    lastVersion: options.warmup + options.steps,
  }
  const push = (version: number) => async () => {
    using weights = own(learner.weights())
    return await sampler.push(weights.value, version)()
  }
  const ahead = sampleAhead(source, rules, { push })
  let started = 0
  for (let taken = orThrow(await ahead.take()); taken._tag === 'Step'; taken = orThrow(await ahead.take())) {
    using batch = source.join(taken.groups.map((each) => each.group)).batch
    using rated = own(scope(() => advantage(batch.value)))
    orThrow(await learner.update(rated.value)())
    ahead.trained()
    if (learner.version() === options.warmup) started = performance.now()
  }
  await ahead.close()
  const seconds = (performance.now() - started) / 1000 / options.steps
  await sampler.close()
  await learner.close()
  return seconds
}

const runMode = (mode: Mode): number => {
  const given = process.argv.slice(2).filter((_, i, all) => all[i] !== '--mode' && all[i - 1] !== '--mode')
  const command = [...process.execArgv, fileURLToPath(import.meta.url), ...given, '--mode', mode]
  return Number(execFileSync(process.execPath, command, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }))
}

if (options.mode !== undefined) console.log(await time(options.mode))
else {
  const seconds = new Map<Mode, number[]>(MODES.map((mode) => [mode, []]))
  for (let round = 0; round < options.rounds; round++) for (const mode of MODES) seconds.get(mode)!.push(runMode(mode))
  const base = median(seconds.get('lag0')!)
  for (const [mode, each] of seconds) {
    const middle = median(each)
    const spread = { lowest: Math.min(...each), highest: Math.max(...each) }
    const tokens = (prompts * group * newTokens) / middle
    console.log(
      JSON.stringify({
        program: 'overlap',
        mode,
        ...options,
        seconds: middle,
        spread,
        completion_tokens_per_second: tokens,
        gain: base / middle,
        ...host(),
      }),
    )
  }
}
