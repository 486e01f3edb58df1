/**
 * Makes the model that comes with Tandem: `npm run make -- model`.
 *
 * Trains a byte-level BPE tokenizer and a decoder of about one million parameters on generated
 * word problems, in two stages: first on worked solutions, to learn arithmetic, then on a few
 * examples with mostly bare answers, a habit that reinforcement learning has to break. Everything
 * is derived from one seed; two runs on one machine give identical files.
 */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { child, type Key, keyFromSeed, orThrow, uniform } from '@tandem-rl/base'
import { History, message } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import cliProgress from 'cli-progress'
import { Command, Option } from 'commander'
import { supervisedCompletion } from '../../src/data/datasets/wordProblems/supervisedCompletion.js'
import { wordProblems } from '../../src/data/datasets/wordProblems/wordProblems.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { tokenEnv } from '../../src/envs/tokenEnv.js'
import type { NewTokenizer } from '../../src/modules/pretrained/newModel.js'
import { makeParams, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { saveModel } from '../../src/modules/pretrained/saveModel.js'
import { TransformersWrapper } from '../../src/modules/transformersWrapper.js'
import { type ModelStage, makeModel } from '../../src/run/define/makeModel.js'
import { type EvaluationResult, evaluator } from '../../src/run/metrics/evaluation.js'

/** Makes a training stage. `bare` is the share of examples that answer without worked steps. */
const stageOf = (
  { bare, ...stage }: Omit<ModelStage, 'conversation'> & { readonly bare: number },
  root: Key,
): ModelStage => {
  const key = child(root, stage.name)
  const source = wordProblems(child(key, 'tasks'), { split: 'train' })
  return {
    ...stage,
    conversation: (index) => {
      const task = orThrow(source.at(index))
      const style = uniform(child(key, 'style'), index) < bare ? 'bare' : 'rationale'
      return History([message('user', task.query), message('assistant', supervisedCompletion(task, style))])
    },
  }
}

const stagesOf = (key: Key): readonly ModelStage[] => [
  stageOf({ name: 'worked solutions', conversations: 64_000, learningRate: 2e-3, warmUpSteps: 100, bare: 0 }, key),
  stageOf(
    { name: 'the habit of bare answers', conversations: 8_000, learningRate: 3e-4, warmUpSteps: 20, bare: 0.8 },
    key,
  ),
]

const tokenizerOf = (key: Key): NewTokenizer => {
  const source = wordProblems(key, { split: 'train' })
  const texts = Array.from({ length: 4000 }, (_, i) => {
    const task = orThrow(source.at(i))
    return `user\n${task.query}\nassistant\n${supervisedCompletion(task, 'rationale')}\n`
  })
  return { texts, vocabularySize: 512 }
}

const evaluate = async (model: Pretrained, temperature: number): Promise<string> => {
  const policy = scope(() =>
    TransformersWrapper({
      config: model.config,
      params: makeParams(model.arrays),
      sampling: { temperature, maxNewTokens: 64 },
    }),
  )
  const results: EvaluationResult[] = []
  const source = wordProblems(keyFromSeed(77), { split: 'heldOut' })
  const measured = evaluator({
    ...{ policy, tasks: 400 },
    env: ({ groups, start }) => tokenEnv(GSM8KEnv({ source, prompts: groups, start }), model.text),
  })
  for await (const part of measured.run(keyFromSeed(78))) results.push(...part.results)
  policy.release()
  const { accuracy = 0, rewardThink: worked = 0 } = measured.scoresOf(results)
  const workedOut = results.filter(({ parts }) => (parts.rewardThink ?? 0) > 0)
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const rightOfWorked = workedOut.filter(({ score }) => score === 1).length / Math.max(1, workedOut.length)
  const how = temperature === 0 ? 'greedy' : `temperature ${temperature}`
  return `${how}: ${percent(accuracy)} right, ${percent(worked)} worked out, ${percent(rightOfWorked)} of these right`
}

const root = fileURLToPath(new URL('../..', import.meta.url))

const main = async (): Promise<void> => {
  const command = new Command('model')
    .description('Makes the tokenizer and the model that come with Tandem.')
    .addOption(
      new Option('--out <folder>', 'where to').default(join(root, 'models', 'word-problems'), 'models/word-problems'),
    )
    .option('--seed <n>', 'seed of everything', Number, 20)
    .parse()
  const { out, seed } = command.opts<{ readonly out: string; readonly seed: number }>()
  const started = performance.now()
  const key = keyFromSeed(seed)
  const bar = new cliProgress.SingleBar({ format: '{stage} {bar} {value}/{total} | nll {nll} | {eta_formatted} left' })
  const models: Pretrained[] = []
  const made = await orThrow(
    makeModel(
      {
        family: 'qwen2',
        sizes: { hiddenSize: 128, layers: 4, heads: 4, keyValueHeads: 2 },
        tokenizer: tokenizerOf(child(key, 'tokenizer')),
        key,
        stages: stagesOf(key),
      },
      (event) => {
        if (event.type === 'model')
          console.log(`${event.parameters.toLocaleString('en-US')} parameters, ${event.vocabularySize} tokens`)
        if (event.type === 'step') {
          const shown = { stage: event.stage, nll: event.nll.toFixed(4) }
          if (event.step === 1) bar.start(event.steps, 0, shown)
          bar.update(event.step, shown)
          if (event.step === event.steps) bar.stop()
        }
        if (event.type === 'stage') models.push(event.model)
      },
    ),
  )
  for (const model of models) {
    console.log(await evaluate(model, 0))
    console.log(await evaluate(model, 1))
  }
  await orThrow(saveModel(out, made))
  console.log(`${out}: ${((performance.now() - started) / 1000).toFixed(0)} s`)
}

await main()
