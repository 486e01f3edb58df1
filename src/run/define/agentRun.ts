/** Builds a policy-gradient run of the user's own agent. */
import { checkOptions, child, type Json, keyFromSeed, orThrow, refuse, visibleText } from '@tandem-rl/base'
import { harmless } from '@tandem-rl/base/host'
import type { AgentModel, CapturedAgent, LLMEngine, OpenAgent, Task } from '@tandem-rl/text'
import type { Owned } from '@tandem-rl/tfjs-onnxruntime/scope'
import { dynamicSampling } from '../../collectors/dynamicSampling.js'
import { inFlightUpdater } from '../../collectors/overlap/inFlightUpdater.js'
import type { CollectorPosition } from '../../collectors/rollouts/lockstep.js'
import { decoderForms } from '../../collectors/updaters/decoderForms.js'
import type { WeightUpdater } from '../../collectors/weightSync.js'
import { rowInputs } from '../../data/inputs.js'
import type { LogProbModel } from '../../data/policy.js'
import type { TaskSource } from '../../data/task.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { NamedTensors } from '../../data/weights.js'
import { localLearner } from '../../learners/localLearner.js'
import { modelEngine } from '../../modules/generation/modelEngine.js'
import type { Pretrained } from '../../modules/pretrained/pretrained.js'
import { sharedParams } from '../../modules/pretrained/sharedParams.js'
import { clientEngine } from '../../modules/remote/clientEngine.js'
import { TransformersWrapper } from '../../modules/transformersWrapper.js'
import { asAdvantage } from '../../objectives/advantages/defineAdvantage.js'
import type { RolloutEntries } from '../../objectives/lossRows.js'
import { plainRewards } from '../metrics/environmentReward.js'
import type { EvaluatorOptions } from '../metrics/evaluation.js'
import { AGENT_RUN_PARTS } from '../optionKinds.js'
import { type AgentEvaluatorOptions, agentEvaluator } from '../parts/agentEvaluator.js'
import type { AgentReward } from '../parts/agentReward.js'
import { type AgentSessions, type AttemptRules, collectSessions, type FailedAttempt } from '../parts/agentSessions.js'
import { positionOf } from '../parts/collecting.js'
import { type FailureLog, failureLog } from '../parts/failureLog.js'
import type { BuildContext } from '../parts/recipe.js'
import { type AnyRun, closing, dataRun, describedAdvantage, type RecordOptions } from '../parts/run.js'
import type { BatchSource } from '../parts/source.js'
import { klWeightOf, overlongOf, policyLearnerParts, rewardFormOf, samplingRoundsOf } from './choices.js'
import { exportsOf } from './exported.js'
import { type PolicyRun, type PolicyRunSettings, type PolicySampler, type RunPlan, runMemory } from './policyParts.js'
import { policyTrials } from './policyTrials.js'
import { runReference } from './runReference.js'

/**
 * An evaluation of the agent on held-out tasks. Decoding is greedy unless `temperature` is set. The
 * measure is success, or the return if the program returns its reward.
 */
export interface AgentHeldOut<T extends Task>
  extends Pick<EvaluatorOptions<never>, 'name' | 'tries' | 'measure' | 'batch' | 'sharedTasks'> {
  readonly tasks: TaskSource<T>
  /** Number of tasks, at most all of a finite source. Default: `keep.evalTasks` of the settings. */
  readonly count?: number
  /** Default 0. */
  readonly temperature?: number
}

/** The parts of a run that trains the user's own agent. */
export interface AgentRunParts<T extends Task> {
  readonly model: Pretrained
  /** The agent: `capture({ run })` or `capture({ command })`. */
  readonly agent: CapturedAgent<T>
  readonly tasks: TaskSource<T>
  /** Scores an attempt. Default: the program returns its reward. */
  readonly reward?: AgentReward<T>
  /** Default: no evaluation. */
  readonly heldOut?: readonly AgentHeldOut<T>[]
  /**
   * Returns one score per row. A group has a signal if its scores differ. Default: the reward
   * without KL penalties.
   */
  readonly signal?: (batch: TensorDict) => ArrayLike<number>
  readonly metrics?: RecordOptions['metrics']
  /** Samples on a server instead of in this process. Closed by the run. */
  readonly sampler?: PolicySampler
  /** Times that a failing attempt is played until its group is left out. Default 2. */
  readonly tries?: number
  /**
   * Called for every failed attempt. Default: writes a line to the standard error output for each
   * reason, and later a count of the attempts that failed alike.
   */
  readonly onFailure?: (failure: FailedAttempt) => void
}

/** Prompts grow with every turn; this many tokens are assumed for the estimate of memory. */
const ESTIMATED_PROMPT = 512

/** The engine behind the server, and the updater of its weights. */
interface Served {
  readonly engine: LLMEngine
  readonly updater: WeightUpdater<NamedTensors>
  readonly begin?: () => Promise<void>
  readonly close: () => Promise<void>
}

const inThisProcess = ({ config, text }: Pretrained, params: NamedTensors): Served => {
  const engine = modelEngine({ config, params, tokenizer: text.tokenizer })
  const forms = decoderForms({ config })
  return {
    engine,
    updater: inFlightUpdater({ engine, weights: forms }),
    close: async () => {
      forms.release()
      await engine.close()
    },
  }
}

/** The engine of a server. It is connected before the first attempt. */
const onServer = async ({ client, updater, begin, close }: PolicySampler, { config, text }: Pretrained) => {
  if (client === undefined)
    throw new RangeError('defineRun: an agent samples from one server: give a sampler with one url')
  const abilities = orThrow(await client.connect())
  const endTokens = abilities.endTokens.length > 0 ? abilities.endTokens : config.endTokens
  const vocabularySize = Math.min(abilities.vocabularySize, config.vocabularySize) // not every server reports its own
  const engine = clientEngine(client, { ...abilities, endTokens, vocabularySize }, text)
  return { engine, updater, close, ...(begin && { begin }) }
}

const problemsOf = (
  settings: PolicyRunSettings,
  { tries = 1 }: { readonly tries?: number },
): readonly (string | false)[] => [
  settings.sampling.maxLag > 0 && 'an agent is sampled between updates: set sampling.maxLag to 0',
  overlongOf(settings) !== null && 'an agent has no length penalty: set sampling.overlongCache to 0',
  !(Number.isInteger(tries) && tries >= 1) && `tries must be an integer of at least 1, got ${tries}`,
]

/** Opens an agent on first use. */
const openedOnce = <T extends Task>(agent: CapturedAgent<T>, model: AgentModel) => {
  let opened: Promise<OpenAgent<T>> | null = null
  return {
    open: (): Promise<OpenAgent<T>> => {
      opened ??= agent.open(model)
      return opened
    },
    close: async () => (await opened)?.close(),
    lateCalls: async () => (await opened)?.lateCalls() ?? 0,
  }
}

/** Counts of the current step, for its record. Mutable. */
interface StepCounts {
  failedAttempts: number
  omittedGroups: number
  splitConversations: number
  lateCalls: number
  relaxedToolChoices?: number
}

const asJson = (position: CollectorPosition): Json => position as unknown as Json // plain JSON, by its contract

interface SourceParts<T extends Task> {
  readonly sessions: Omit<AgentSessions<T>, keyof AttemptRules<T>>
  readonly rules: () => Promise<AttemptRules<T>>
  readonly settings: PolicyRunSettings
  readonly parts: AgentRunParts<T>
  readonly counts: StepCounts
  readonly log: FailureLog
}

/** The batches of a run: the sessions of its agent, step by step. */
const agentSource = <T extends Task>({
  sessions,
  rules,
  settings,
  parts,
  counts,
  log,
}: SourceParts<T>): BatchSource => {
  const { agent, tasks, signal = plainRewards } = parts
  const rounds = samplingRoundsOf(settings)
  const kl = klWeightOf(settings)
  return {
    description: {
      agent: agent.description,
      tasks: tasks.name,
      groups: sessions.groups,
      groupSize: sessions.groupSize,
      rounds,
      klCoefficient: kl.coefficient,
    },
    tasks,
    kl,
    inputs: () => rowInputs(tasks),
    open: async ({ push }) => ({
      position: asJson({ batch: 0, remembered: {} }),
      collect:
        ({ position, klCoefficient }) =>
        async () => {
          const opened = await rules()
          Object.assign(counts, { failedAttempts: 0, omittedGroups: 0, splitConversations: 0 })
          const { lateCalls, relaxedToolChoices } = opened.agent
          const before = { late: lateCalls(), relaxed: relaxedToolChoices?.() ?? 0 }
          const collect = collectSessions(
            { ...sessions, ...opened },
            {
              coefficient: settings.kl.in === 'reward' ? klCoefficient : 0,
              onBatch: ({ omittedGroups, splitConversations }) => {
                counts.omittedGroups += omittedGroups
                counts.splitConversations += splitConversations
              },
            },
          )
          const rule = {
            groups: sessions.groups,
            rounds,
            signal: (batch: unknown) => signal(batch as TensorDict), // read by names
          }
          const at = positionOf(position) ?? { batch: 0, remembered: {} }
          const result = await dynamicSampling({ collect }, rule)(at)()
          log.flush()
          counts.lateCalls = lateCalls() - before.late
          if (relaxedToolChoices) counts.relaxedToolChoices = relaxedToolChoices() - before.relaxed
          if (result._tag === 'Left') return result
          const { batch, position: next, sampling } = result.right
          return {
            _tag: 'Right',
            right: {
              batch: batch as unknown as Owned<TensorDict>, // read by names from here on
              position: asJson(next),
              sampling,
              overlap: null,
            },
          }
        },
      trained: push,
      close: async () => undefined,
    }),
    close: async () => undefined,
  }
}

/** Returns the sessions of a step, as the settings determine them. */
const sessionRules = <T extends Task>(
  { settings, tasks, agent }: AgentRunParts<T> & RunPlan,
  reference: LogProbModel | undefined,
) => ({
  tasks,
  key: child(keyFromSeed(settings.seed), 'rollouts'),
  name: agent.name,
  groups: settings.tasks.prompts,
  groupSize: settings.tasks.group,
  temperature: settings.sampling.temperature,
  maxNewTokens: settings.sampling.maxNewTokens,
  kl: reference === undefined ? null : { reference, form: rewardFormOf(settings) },
})

/** Makes the evaluator of held-out tasks. Their own options replace those of the settings. */
const heldOutEvaluator = <T extends Task>(
  { tasks: source, count, temperature = 0, ...rest }: AgentHeldOut<T>,
  {
    settings: { keep, sampling },
    rules,
    measure,
  }: Pick<AgentEvaluatorOptions<T>, 'rules' | 'measure'> & Pick<RunPlan, 'settings'>,
) =>
  agentEvaluator({
    ...(measure && { measure }),
    sharedTasks: keep.sharedTasks,
    ...rest,
    source,
    tasks: count ?? keep.evalTasks,
    temperature,
    maxNewTokens: sampling.maxNewTokens,
    rules,
  })

const builtRun = async <T extends Task>(
  parts: AgentRunParts<T> & RunPlan,
  context: BuildContext,
): Promise<PolicyRun> => {
  const { settings, loss, model, agent, reward, heldOut = [], metrics, tries = 2 } = parts
  const log = failureLog((line) => console.error(visibleText(line)))
  const { onFailure = log.note } = parts
  const { config, text } = model
  const learner = localLearner(policyLearnerParts(settings, model, loss))
  using first = sharedParams(model)
  const reference = TransformersWrapper({ config, params: first.value })
  let served: Served | undefined
  try {
    const timed = runReference(settings, { loss, model: reference })
    const sizes = { prompt: ESTIMATED_PROMPT, weights: learner.weights(), context }
    const [memory, trials] = [runMemory(settings, model, sizes), policyTrials(parts, sizes)]
    const engine: Served = parts.sampler ? await onServer(parts.sampler, model) : inThisProcess(model, first.value)
    served = engine
    const opened = openedOnce(agent, { engine: engine.engine, text })
    const counts: StepCounts = { failedAttempts: 0, omittedGroups: 0, splitConversations: 0, lateCalls: 0 }
    const failed = (failure: FailedAttempt): void => {
      counts.failedAttempts += 1
      harmless('onFailure', onFailure)(failure)
    }
    const rules = async () => ({ agent: await opened.open(), reward, tries, onFailure: failed })
    const data = agentSource({
      rules,
      settings,
      parts,
      counts,
      log,
      sessions: sessionRules(parts, timed.model),
    })
    const measure = reward === undefined ? 'return' : 'success'
    const evaluate = heldOut.map((tasks) => heldOutEvaluator(tasks, { settings, rules, measure }))
    const run: AnyRun = dataRun({
      data: data as BatchSource<RolloutEntries>, // rows of captured sessions, with advantages
      learner,
      updater: engine.updater,
      evaluate,
      record: {
        metrics: (batch) => ({ ...counts, ...metrics?.(batch) }),
        decode: (id) => text.tokenizer.decode([id], 'keep'),
        model,
        exports: exportsOf(settings, model, learner),
      },
    })
    const advantage = asAdvantage(parts.advantage)
    const closed = closing(run, async () => {
      log.flush()
      await opened.close()
      await engine.close()
      reference.release()
    })
    return {
      ...closed,
      advantage: advantage as unknown as AnyRun['advantage'], // batches are those of the source
      description: { ...run.description, advantage: describedAdvantage(advantage) },
      ...(engine.begin && { begin: engine.begin }),
      ...timed.part,
      memory,
      trials,
    }
  } catch (error) {
    reference.release()
    await learner.close()
    await (served ?? parts.sampler)?.close()
    throw error
  }
}

/**
 * Builds a run that trains the user's own agent. Each step plays every task in several attempts,
 * scores them, trains on what the model sampled in them, and pushes the weights to the engine that
 * serves the next step.
 *
 * An attempt that fails is played again, up to `tries` times. Then its group is left out of the
 * step. A step without a complete group fails.
 *
 * Errors   throws RangeError if settings contradict each other, and FailureError if the run is
 *          estimated to need more memory than the machine has, or a server does not respond.
 * Effects  holds the model's weights until the run is closed.
 */
export const agentRun = async <T extends Task>(
  parts: AgentRunParts<T> & RunPlan,
  context: BuildContext,
): Promise<PolicyRun> => {
  checkOptions('defineRun', parts, AGENT_RUN_PARTS)
  if (context.training !== undefined)
    throw new RangeError('defineRun: an agent of your own is trained in this process: leave out --learner')
  refuse('defineRun', problemsOf(parts.settings, parts))
  return builtRun(parts, context)
}
