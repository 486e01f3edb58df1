/**
 * Makes the model that comes with Tandem: `npm run make:model`.
 *
 * A byte-level BPE tokenizer and a decoder of about a million parameters are trained on generated word problems, in two stages:
 * first on worked solutions, which teaches arithmetic, then on a few examples of which most are bare answers, which teaches the bad habit
 * that reinforcement learning is to break. Everything is drawn from one seed; two runs on one machine give the same bytes.
 */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as tf from '@tensorflow/tfjs'
import cliProgress from 'cli-progress'
import { Command, Option } from 'commander'
import { isLeft } from 'fp-ts/lib/Either.js'
import { orThrow } from '../src/core/failure.js'
import { child, type Key, keyFromSeed, uniform } from '../src/core/key.js'
import { cosine, warmUp } from '../src/core/schedule.js'
import { trainBytePairEncoding } from '../src/data/bytePairEncoding.js'
import { renderText } from '../src/data/chatTemplate.js'
import { supervisedCompletion } from '../src/data/datasets/wordProblems/supervisedCompletion.js'
import { wordProblems } from '../src/data/datasets/wordProblems/wordProblems.js'
import { History, message } from '../src/data/history.js'
import type { Task } from '../src/data/task.js'
import type { NamedTensors } from '../src/data/weights.js'
import { jit } from '../src/engine/jit.js'
import { maskedMean } from '../src/engine/masked.js'
import { gatherLogProbs } from '../src/engine/ops/logProbs.js'
import { type Owned, own, scope } from '../src/engine/scope.js'
import { selectBackend } from '../src/engine/select.js'
import { valueAndGrad } from '../src/engine/valueAndGrad.js'
import { liveFiles } from '../src/live/files.js'
import {
  hostArrays,
  type ModelText,
  makeParams,
  type Pretrained,
  pretrainedFiles,
  textFromFiles,
} from '../src/modules/pretrained.js'
import { type DecoderConfig, parseConfig } from '../src/modules/transformer/config.js'
import { completionBatch, packCompletions } from '../src/modules/transformer/pack.js'
import { initialParams, parameterCount } from '../src/modules/transformer/params.js'
import { type CompletionBatch, completionLogits } from '../src/modules/transformer/score.js'
import { TransformersWrapper } from '../src/modules/transformersWrapper.js'
import { type AdamWState, adamW } from '../src/objectives/updates/adamW.js'
import { clipByGlobalNorm } from '../src/objectives/updates/optimizer.js'
import { evaluateProblems, type ProblemResult, scoresOf } from '../src/run/evaluate.js'

const END_OF_TURN = '<|im_end|>'
const SPECIAL_TOKENS = ['<|endoftext|>', '<|im_start|>', END_OF_TURN]

const CHAT_TEMPLATE = `{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
`

interface Stage {
  readonly name: string
  readonly examples: number
  readonly learningRate: number
  /** Steps over which the learning rate rises; then it falls with a cosine. */
  readonly warmUpSteps: number
  /** Share of examples that answer without working the problem out. */
  readonly bare: number
}

const STAGES: readonly Stage[] = [
  { name: 'worked solutions', examples: 64_000, learningRate: 2e-3, warmUpSteps: 100, bare: 0 },
  { name: 'the habit of bare answers', examples: 8_000, learningRate: 3e-4, warmUpSteps: 20, bare: 0.8 },
]

const BATCH = 64
const VOCABULARY = 512
const TOKENIZER_EXAMPLES = 4000

const taskAt = (source: ReturnType<typeof wordProblems>, index: number): Task => {
  const task = source.at(index)
  if (isLeft(task)) throw new Error(task.left.reason)
  return task.right
}

const makeText = (key: Key): ModelText => {
  const source = wordProblems(key, { split: 'train' })
  const texts = Array.from({ length: TOKENIZER_EXAMPLES }, (_, i) => {
    const task = taskAt(source, i)
    return `user\n${task.query}\nassistant\n${supervisedCompletion(task, 'worked')}\n`
  })
  const tokenizerJson = trainBytePairEncoding(texts, { vocabularySize: VOCABULARY, specialTokens: SPECIAL_TOKENS })
  const tokenizerConfig = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    eos_token: END_OF_TURN,
    pad_token: '<|endoftext|>',
    clean_up_tokenization_spaces: false,
    model_max_length: 2048,
  }
  const text = textFromFiles({
    folder: 'the new model',
    tokenizer: tokenizerJson,
    settings: tokenizerConfig,
    template: CHAT_TEMPLATE,
  })
  if (isLeft(text)) throw new Error(text.left.reason)
  return text.right
}

const makeConfig = ({ tokenizer }: ModelText): DecoderConfig =>
  orThrow(
    parseConfig({
      architectures: ['Qwen2ForCausalLM'],
      model_type: 'qwen2',
      vocab_size: VOCABULARY,
      hidden_size: 128,
      intermediate_size: 384,
      num_hidden_layers: 4,
      num_attention_heads: 4,
      num_key_value_heads: 2,
      hidden_act: 'silu',
      rms_norm_eps: 1e-6,
      max_position_embeddings: 2048,
      rope_parameters: { rope_type: 'default', rope_theta: 10000 },
      tie_word_embeddings: true,
      attention_dropout: 0,
      use_cache: true,
      eos_token_id: tokenizer.idOf(END_OF_TURN)!,
      pad_token_id: tokenizer.idOf('<|endoftext|>')!,
    }),
  )

interface Trainer {
  readonly params: NamedTensors
  readonly optimizer: AdamWState
}

interface StepInput extends Trainer {
  readonly batch: CompletionBatch
  readonly mask: tf.Tensor
  readonly learningRate: tf.Tensor
}

/** One step of supervised learning on completions: mean negative log-probability of their tokens. */
const supervisedStep = (config: DecoderConfig) => {
  const optimizer = adamW({ weightDecay: 0.1, beta2: 0.95 })
  const compiled = jit((input: StepInput) => {
    const { value, grads } = valueAndGrad(input.params, (params) => {
      const logits = completionLogits(params, config, input.batch)
      const logProbs = gatherLogProbs(logits, tf.reshape(input.batch.completionIds, [-1]))
      return { value: tf.neg(maskedMean(logProbs, tf.reshape(input.mask, [-1]))), aux: {} }
    })
    const clipped = clipByGlobalNorm(grads, 1)
    const { params, state } = optimizer.update(clipped.grads, input.optimizer, input.params, input.learningRate)
    return { loss: value, trainer: { params, optimizer: state } }
  })
  return { compiled, init: (params: NamedTensors): Trainer => ({ params, optimizer: optimizer.init(params) }) }
}

const trainStage = async (
  stage: Stage,
  params: Owned<NamedTensors>,
  context: { readonly config: DecoderConfig; readonly text: ModelText; readonly key: Key },
): Promise<Owned<NamedTensors>> => {
  const { config, text, key } = context
  const source = wordProblems(child(key, 'tasks'), { split: 'train' })
  const steps = Math.ceil(stage.examples / BATCH)
  const rate = warmUp(stage.warmUpSteps, cosine(stage.learningRate, stage.learningRate / 50, steps - stage.warmUpSteps))
  const { compiled, init } = supervisedStep(config)
  let trainer = own(scope(() => init(params.value)))
  const bar = new cliProgress.SingleBar({
    format: `${stage.name} {bar} {value}/{total} | loss {loss} | {eta_formatted} left`,
  })
  bar.start(steps, 0, { loss: '-' })
  for (let step = 0; step < steps; step++) {
    const rows = Array.from({ length: BATCH }, (_, i) => {
      const index = step * BATCH + i
      const task = taskAt(source, index)
      const style = uniform(child(key, 'style'), index) < stage.bare ? 'bare' : 'worked'
      const prompt = renderText(text.template, History([message('user', task.query)]), { generationPrompt: 'add' })
      if (isLeft(prompt)) throw new Error(prompt.left.reason)
      return {
        prompt: text.tokenizer.encode(prompt.right),
        completion: text.tokenizer.encode(supervisedCompletion(task, style) + text.endOfTurn),
      }
    })
    const packed = packCompletions(
      { prompts: rows.map((r) => r.prompt), group: 1 },
      rows.map((r) => r.completion),
    )
    const previous = trainer
    const result = scope(() => {
      const output = compiled({
        ...previous.value,
        batch: completionBatch(packed, config),
        mask: tf.tensor2d(packed.completionMask, [BATCH, packed.completionLength]),
        learningRate: tf.scalar(rate(step)),
      })
      return { loss: output.loss.dataSync()[0]!, next: own(output.trainer) }
    })
    trainer = result.next
    previous.release()
    if (step % 10 === 9 || step === steps - 1) bar.update(step + 1, { loss: result.loss.toFixed(4) })
    if (step % 10 === 9) await new Promise((resolve) => setImmediate(resolve)) // lets the bar be drawn
  }
  bar.stop()
  const kept = own(trainer.value.params)
  trainer.release()
  params.release()
  compiled.release()
  return kept
}

const evaluate = async (model: Pretrained, temperature: number): Promise<string> => {
  const policy = scope(() =>
    TransformersWrapper({
      config: model.config,
      params: makeParams(model.arrays),
      sampling: { temperature, maxNewTokens: 64 },
    }),
  )
  const results: ProblemResult[] = []
  const source = wordProblems(keyFromSeed(77), { split: 'heldOut' })
  for await (const part of evaluateProblems({ text: model.text, policy, source, problems: 400, key: keyFromSeed(78) }))
    results.push(...part)
  policy.release()
  const { accuracy, worked } = scoresOf(results)
  const workedOut = results.filter((result) => result.isWorked)
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const rightOfWorked = workedOut.filter((result) => result.isRight).length / Math.max(1, workedOut.length)
  const how = temperature === 0 ? 'greedy' : `temperature ${temperature}`
  return `${how}: ${percent(accuracy)} right, ${percent(worked)} worked out, ${percent(rightOfWorked)} of these right`
}

const root = dirname(dirname(fileURLToPath(import.meta.url)))

const main = async (): Promise<void> => {
  const command = new Command('make:model')
    .description('Makes the tokenizer and the model that come with Tandem.')
    .addOption(
      new Option('--out <folder>', 'where to').default(join(root, 'models', 'word-problems'), 'models/word-problems'),
    )
    .option('--seed <n>', 'seed of everything', Number, 20)
    .parse()
  const { out, seed } = command.opts<{ readonly out: string; readonly seed: number }>()
  const started = performance.now()
  await selectBackend()
  const key = keyFromSeed(seed)
  const text = makeText(child(key, 'tokenizer'))
  const config = makeConfig(text)
  console.log(`${parameterCount(config).toLocaleString('en-US')} parameters, ${text.tokenizer.vocabularySize} tokens`)
  let params: Owned<NamedTensors> = own(scope(() => initialParams(config, child(key, 'params'))))
  for (const stage of STAGES) {
    params = await trainStage(stage, params, { config, text, key: child(key, stage.name) })
    const model = { config, text, arrays: hostArrays(params.value) }
    console.log(await evaluate(model, 0))
    console.log(await evaluate(model, 1))
  }
  const files = pretrainedFiles({ config, text, arrays: hostArrays(params.value) })
  const written = await liveFiles.writeFolder(out, files)()
  if (isLeft(written)) throw new Error(`${written.left.path}: ${written.left.reason}`)
  console.log(`${out}: ${((performance.now() - started) / 1000).toFixed(0)} s`)
}

await main()
