/** Builds the run of a model: sampler, rewards, reference, learner, memory estimate and exports. */
import { checkOptions, child, type Key, keyFromSeed, orThrow } from '@tandem-rl/base'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import { inFlightUpdater } from '../../collectors/overlap/inFlightUpdater.js'
import { decoderForms } from '../../collectors/updaters/decoderForms.js'
import { inProcessUpdater } from '../../collectors/weightSync.js'
import type { GroupEntry } from '../../data/batch.js'
import type { HistoryAction, HistoryPrompt, LogProbModel, Policy, TokenAction, TokenPrompt } from '../../data/policy.js'
import { rowLengths } from '../../data/tensorDict/leaf.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Env } from '../../envs/base/env.js'
import { type TokenEnvState, type TokenEnvText, tokenEnv } from '../../envs/tokenEnv.js'
import { KLRewardTransform } from '../../envs/transforms/klRewardTransform.js'
import { overlongPenalty } from '../../envs/transforms/overlongPenalty.js'
import { PolicyVersion } from '../../envs/transforms/policyVersion.js'
import { append } from '../../envs/transforms/transform.js'
import type { Learner } from '../../learners/learner.js'
import { localLearner } from '../../learners/localLearner.js'
import { folderEngineModule } from '../../modules/generation/folderEngine.js'
import { LLMOnDevice } from '../../modules/generation/onDevice.js'
import { enginePolicy } from '../../modules/generation/policy/enginePolicy.js'
import type { ModelText, Pretrained } from '../../modules/pretrained/pretrained.js'
import { sharedParams } from '../../modules/pretrained/sharedParams.js'
import { localClient } from '../../modules/remote/localClient.js'
import { type TransformersPolicy, TransformersWrapper } from '../../modules/transformersWrapper.js'
import { asAdvantage } from '../../objectives/advantages/defineAdvantage.js'
import type { SegmentRule } from '../../objectives/advantages/segments.js'
import type { LossMetrics } from '../../objectives/loss.js'
import type { PolicyBatch } from '../../objectives/policyLoss.js'
import { EnvironmentReward, plainRewards } from '../metrics/environmentReward.js'
import { type Evaluator, type EvaluatorOptions, evaluator } from '../metrics/evaluation.js'
import { POLICY_RUN_PARTS } from '../optionKinds.js'
import type { EnvContext } from '../parts/collecting.js'
import type { BuildContext } from '../parts/recipe.js'
import { checkRemote, type OpenTraining } from '../parts/remoteTraining.js'
import { closing, environmentRun, type RecordOptions } from '../parts/run.js'
import { klWeightOf, overlongOf, policyLearnerParts, rewardFormOf, samplingRoundsOf } from './choices.js'
import { exportsOf } from './exported.js'
import { type PolicyRun, type PolicyRunSettings, type PolicySampler, type RunPlan, runMemory } from './policyParts.js'
import { policyTrials } from './policyTrials.js'
import { runReference } from './runReference.js'

/** The context from which an environment of tasks is made. */
export interface TaskContext {
  /** Number of different tasks. */
  readonly prompts: number
  /** Elements per task. */
  readonly repeats: number
  /** Index of the first task. */
  readonly start: number
}

/** Makes an environment of conversations: `(context) => GSM8KEnv({ source, ...context })`. */
export type TaskEnv<O extends HistoryPrompt> = (context: TaskContext) => Env<O, HistoryAction>

/** An evaluation of the run. Decoding is greedy unless `temperature` is set. */
export interface HeldOut<O extends HistoryPrompt>
  extends Pick<EvaluatorOptions<never>, 'name' | 'tries' | 'measure' | 'batch' | 'sharedTasks'> {
  readonly env: TaskEnv<O>
  /** Number of tasks, at most all of a finite source. Default: `keep.evalTasks` of the settings. */
  readonly tasks?: number
  /** Default 0. */
  readonly temperature?: number
}

export interface PolicyRunParts<O extends HistoryPrompt> {
  readonly model: Pretrained
  readonly env: TaskEnv<O>
  /** Default: no evaluation. */
  readonly heldOut?: readonly HeldOut<O>[]
  /**
   * Returns one score per row. A group has a signal if its scores differ. Default: the reward
   * without length and KL penalties.
   */
  readonly signal?: (batch: TensorDict) => ArrayLike<number>
  readonly metrics?: RecordOptions['metrics']
  /**
   * The tools that the model's template shows to the policy, such as `agent.toolSpecs`. Default:
   * none.
   */
  readonly tools?: readonly object[]
  /**
   * For agents that fold their context: the distribution of a conversation's reward over its
   * segments (`segmentRows`). Default: all turns of a conversation share its advantage.
   */
  readonly segments?: SegmentRule
  /**
   * Samples instead of the in-process model, which is then used only for evaluation. Closed by the
   * run.
   */
  readonly sampler?: PolicySampler
}

/** The type of evaluation environments. */
type EvalEnv = Env<TokenPrompt, TokenAction>

/**
 * Makes the token-level environment of a batch, with length and KL penalties in the reward. Without
 * a reference, the KL is not measured.
 */
const rewardedEnv = <O extends HistoryPrompt>(
  settings: PolicyRunSettings,
  {
    text,
    env,
    reference,
  }: Pick<PolicyRunParts<O>, 'env'> & {
    readonly text: ModelText & TokenEnvText
    readonly reference: LogProbModel | undefined
  },
) => {
  const overlong = overlongOf(settings)
  const form = rewardFormOf(settings)
  return ({ groups, start, klCoefficient }: EnvContext) => {
    const played = tokenEnv(env({ prompts: groups, repeats: settings.tasks.group, start }), text)
    const plain = pipe(played, append(EnvironmentReward())) as unknown as typeof played // one entry more
    const shaped =
      overlong === null ? plain : (pipe(plain, append(overlongPenalty(overlong))) as unknown as typeof plain) // one entry more
    const coefficient = settings.kl.in === 'reward' ? klCoefficient : 0 // 0 only measures the KL
    const tasks = shaped as unknown as Env<TokenPrompt & GroupEntry, TokenAction> // further entries pass through
    const measured = (by: LogProbModel) => pipe(tasks, append(KLRewardTransform({ reference: by, coefficient, form })))
    const scored = reference === undefined ? (tasks as unknown as ReturnType<typeof measured>) : measured(reference) // no loss reads the entries
    return pipe(scored, append(PolicyVersion()))
  }
}

/**
 * Starts the model's engine on its own thread. Throws RangeError if the model is not in a folder.
 */
const threadSampler = async (settings: PolicyRunSettings, { config }: Pretrained): Promise<PolicySampler> => {
  const { sampling, tasks, model } = settings
  if (model === undefined)
    throw new RangeError('sampling.maxLag: the sampling thread reads a model folder, and this recipe makes its model')
  const limits = { maxConcurrent: tasks.prompts * tasks.group }
  const module = folderEngineModule({ folder: model, text: 'absent', threads: sampling.samplerThreads, limits })
  const engine = orThrow(await LLMOnDevice(module, { weights: 'move' })())
  const client = localClient(engine, 'the sampling thread')
  const forms = decoderForms({ config })
  return {
    policy: enginePolicy({
      engine: client,
      sampling: { temperature: sampling.temperature, maxTokens: sampling.maxNewTokens },
      mixedVersions: 'each',
    }),
    updater: inFlightUpdater({ engine, weights: forms }),
    close: async () => {
      forms.release()
      await client.close()
    },
  }
}

const promptTokens = async <O extends HistoryPrompt>(
  env: Env<TokenEnvState<O>, TokenAction>,
  key: Key,
): Promise<number> => {
  using state = own(orThrow(await env.reset(TensorDict({}, [env.batchSize]), key)()))
  const prompts = get(state.value as unknown as TensorDict<TokenPrompt>, 'tokens', 'prompt') // every token environment has it
  return Math.max(0, ...rowLengths(prompts))
}

type ModelParts<O extends HistoryPrompt> = PolicyRunParts<O> & RunPlan

/** The text side of a model whose template shows these tools. */
const withTools = (text: ModelText, tools: PolicyRunParts<never>['tools']): ModelText & TokenEnvText => ({
  ...text,
  ...(tools !== undefined && { tools }),
})

/** Returns the evaluators. `at` makes the evaluated policy. */
const evaluatorsOf = <O extends HistoryPrompt>(
  heldOut: readonly HeldOut<O>[],
  {
    text,
    keep,
    at,
  }: {
    readonly text: ModelText & TokenEnvText
    readonly keep: PolicyRunSettings['keep']
    readonly at: (sampling: { readonly temperature: number }) => Policy<TokenPrompt, TokenAction>
  },
): readonly Evaluator[] =>
  heldOut.map(({ env: tasksOf, temperature = 0, tasks = keep.evalTasks, ...rest }) =>
    evaluator({
      sharedTasks: keep.sharedTasks,
      ...rest,
      tasks,
      env: ({ groups, start }) =>
        tokenEnv(tasksOf({ prompts: groups, repeats: rest.tries ?? 1, start }), text) as unknown as EvalEnv, // it has more
      policy: at({ temperature }),
    }),
  )

/** Builds a run whose model is trained and sampled by a server. */
const remoteRun = async <O extends HistoryPrompt>(
  { settings, loss, advantage, model, env, heldOut = [], signal = plainRewards, metrics, tools }: ModelParts<O>,
  open: OpenTraining,
): Promise<PolicyRun> => {
  const text = withTools(model.text, tools)
  const { tasks, keep, sampling } = settings
  checkRemote(settings)
  const { optimizer, key, passes = {}, offPolicy = {} } = policyLearnerParts(settings, model, loss)
  const { maxGradNorm = 1, ...steps } = passes
  const remote = await open({
    config: model.config,
    loss,
    optimizer,
    key,
    passes: steps,
    maxGradNorm,
    lora: settings.lora.rank,
    maxTokens: settings.sampling.maxNewTokens,
    offPolicy,
  })
  const reference = runReference(settings, { loss, model: remote.reference })
  const run = environmentRun({
    env: rewardedEnv(settings, { text, env, reference: reference.model }),
    policy: remote.policy,
    advantage: asAdvantage(advantage),
    learner: remote.learner as Learner<PolicyBatch, LossMetrics>, // `KLRewardTransform` adds those of the reference
    updater: remote.updater,
    evaluate: evaluatorsOf(heldOut, { text, keep, at: remote.at }),
    collect: {
      key: child(key, 'rollouts'),
      groups: tasks.prompts,
      rounds: samplingRoundsOf(settings),
      kl: klWeightOf(settings),
      signal,
      ...(sampling.maxLag > 0 && { ahead: { maxLag: sampling.maxLag, stale: sampling.stale } }),
    },
    record: {
      metrics: (batch) => ({ ...remote.metrics(), ...metrics?.(batch) }),
      decode: (id) => text.tokenizer.decode([id], 'keep'),
    },
  })
  return { ...closing(run, remote.close), ...reference.part }
}

const builtRun = async <O extends HistoryPrompt>(parts: ModelParts<O>, context: BuildContext): Promise<PolicyRun> => {
  const { settings, loss, model, env, heldOut = [], signal = plainRewards, metrics, tools, sampler: given } = parts
  const [{ config }, text] = [model, withTools(model.text, tools)]
  const { tasks, sampling, compute, keep } = settings
  const key = keyFromSeed(settings.seed)
  const learner = localLearner(policyLearnerParts(settings, model, loss))
  using first = sharedParams(model)
  const isShared = compute.workers > 1
  const reference = TransformersWrapper({ config, params: first.value, ...(isShared && { scorer: learner.scorer() }) })
  const inProcess: TransformersPolicy = TransformersWrapper({
    config,
    params: learner.weights(),
    sampling: { temperature: sampling.temperature, maxNewTokens: sampling.maxNewTokens },
    ...(isShared && { generator: learner.generator() }),
  })
  try {
    const timed = runReference(settings, { loss, model: reference })
    const rewarded = rewardedEnv(settings, { text, env, reference: timed.model })
    const prompt = await promptTokens(tokenEnv(env({ prompts: 1, repeats: 1, start: 0 }), text), child(key, 'look'))
    const sizes = { prompt, weights: learner.weights(), context }
    const [memory, trials] = [runMemory(settings, model, sizes), policyTrials(parts, sizes)]
    const sampler = given ?? (sampling.maxLag === 0 ? null : await threadSampler(settings, model))
    const evaluators = evaluatorsOf(heldOut, { text, keep, at: (sampled) => inProcess.withSampling(sampled) })
    const run = environmentRun({
      env: rewarded,
      policy: sampler?.policy ?? inProcess,
      advantage: asAdvantage(parts.advantage),
      learner,
      ...(sampler && { updater: sampler.updater }),
      evaluate: evaluators,
      collect: {
        key: child(key, 'rollouts'),
        groups: tasks.prompts,
        rounds: samplingRoundsOf(settings),
        kl: klWeightOf(settings),
        signal,
        ...(sampling.maxLag > 0 && { ahead: { maxLag: sampling.maxLag, stale: sampling.stale } }),
      },
      record: {
        ...(metrics && { metrics }),
        decode: (id) => text.tokenizer.decode([id], 'keep'),
        model: { config, text },
        exports: exportsOf(settings, model, learner),
      },
    })
    const evaluated = inProcessUpdater(inProcess)
    const refresh = sampler === null ? undefined : (version: number) => evaluated.push(learner.weights(), version)
    const closed = closing(run, async () => {
      await sampler?.close()
      if (sampler !== null) inProcess.release() // else it is the policy, which the run closes
      reference.release()
    })
    const { begin } = sampler ?? {}
    return { ...closed, ...timed.part, ...(refresh && { refresh }), ...(begin && { begin }), memory, trials }
  } catch (error) {
    inProcess.release()
    reference.release()
    await learner.close()
    await given?.close()
    throw error
  }
}

/** Builds the run of a model and an environment. */
export const modelRun = async <O extends HistoryPrompt>(
  parts: PolicyRunParts<O> & RunPlan,
  context: BuildContext,
): Promise<PolicyRun> => {
  checkOptions('defineRun', parts, POLICY_RUN_PARTS)
  if (context.training === undefined) return builtRun(parts, context)
  if (parts.sampler !== undefined)
    throw new RangeError('defineRun: a server that trains also samples: leave out sampler or --learner')
  return remoteRun(parts, context.training)
}
