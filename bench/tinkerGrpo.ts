/**
 * Times GRPO steps on a Tinker server: sampling, a random reward, a policy gradient and an update
 * of an adapter. The sizes are those of bench/grpo.ts. Run it against SkyRL and against our
 * server:
 *
 *     npm run bench -- tinkerGrpo --model /tmp/bench-model   # makes the model and ends
 *     tandem serve /tmp/bench-model --tinker --port 8711
 *     npm run bench -- tinkerGrpo --model /tmp/bench-model --url http://127.0.0.1:8711
 *
 * The first step is reported alone, because servers may compile in it.
 */
import { existsSync } from 'node:fs'
import { child, keyFromSeed, median, orThrow, uniform } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { floatTensor, integerTensor, type TinkerTrainer, tinkerClient } from '@tandem-rl/tinker'
import { Command } from 'commander'
import { newModel } from '../src/modules/pretrained/newModel.js'
import { hostArrays } from '../src/modules/pretrained/pretrained.js'
import { saveModel } from '../src/modules/pretrained/saveModel.js'
import { initialParams } from '../src/modules/transformer/params.js'
import { randomIds, wholeNumber } from './shared/settings.js'

interface Options {
  readonly model: string
  readonly baseModel?: string
  readonly url?: string
  readonly prompts: number
  readonly group: number
  readonly prompt: number
  readonly newTokens: number
  readonly rank: number
  readonly steps: number
}

const options = new Command()
  .description('Times GRPO steps on a Tinker server.')
  .requiredOption('--model <folder>', 'the random Qwen3 model, which is made if there is none')
  .option('--base-model <name>', "the model's name on the server. Default: the folder")
  .option('--url <url>', 'the server. Default: none, only the model is made')
  .option('--prompts <n>', '', wholeNumber, 16)
  .option('--group <n>', 'completions of each prompt', wholeNumber, 8)
  .option('--prompt <n>', 'tokens of a prompt', wholeNumber, 32)
  .option('--new-tokens <n>', 'tokens of a completion', wholeNumber, 64)
  .option('--rank <n>', 'rank of the adapter', wholeNumber, 8)
  .option('--steps <n>', 'timed steps, after the first one', wholeNumber, 5)
  .parse()
  .opts<Options>()

/** Ids below this one are neither special tokens nor padding. */
const ORDINARY = 250

const makeModel = async (folder: string): Promise<void> => {
  await selectBackend()
  const key = keyFromSeed(0)
  const sizes = { hiddenSize: 128, layers: 4, heads: 4, keyValueHeads: 2, maxPositions: 1024 }
  const tokenizer = { texts: ['user\nassistant\n'], vocabularySize: 270 }
  const { config, text } = orThrow(newModel({ family: 'qwen3', key, sizes, tokenizer }))
  const arrays = scope(() => hostArrays(initialParams(config, child(key, 'params'))))
  await orThrow(saveModel(folder, { config, text, arrays }))
}

/** Seconds of the parts of a step. */
interface Phases {
  readonly sample: number
  readonly train: number
}

const step = async (trainer: TinkerTrainer, index: number): Promise<Phases> => {
  const { prompts: count, group, prompt: length, newTokens } = options
  const started = performance.now()
  const sampler = orThrow(await trainer.sampler()())
  const sampling = { n: group, maxTokens: newTokens, stop: [] }
  const rows = await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const seed = index * count + i
      const prompt = Array.from(randomIds(seed, length, ORDINARY))
      const { sequences } = orThrow(await sampler.sample(prompt, { ...sampling, seed })())
      return sequences.map(({ tokens, logProbs }) => ({ prompt, tokens: Array.from(tokens), logProbs: logProbs ?? [] }))
    }),
  )
  const sampled = performance.now()
  const all = rows.flat()
  const short = all.find(({ tokens, logProbs }) => tokens.length !== newTokens || logProbs.length !== newTokens)
  if (short !== undefined) throw new Error(`a completion has ${short.tokens.length} tokens instead of ${newTokens}`)
  const zeros = Array<number>(length - 1).fill(0)
  const key = child(keyFromSeed(0), index)
  const data = all.map(({ prompt, tokens, logProbs }, i) => ({
    tokens: [...prompt, ...tokens.slice(0, -1)],
    inputs: {
      target_tokens: integerTensor([...prompt.slice(1), ...tokens]),
      logprobs: floatTensor([...zeros, ...Array.from(logProbs)]),
      advantages: floatTensor([...zeros, ...tokens.map(() => uniform(key, i) - 0.5)]),
    },
  }))
  const loss = orThrow(await trainer.forwardBackward({ data, lossFn: 'ppo' })())
  const stepped = orThrow(await trainer.optimStep({ learning_rate: 1e-4 })())
  orThrow(await loss.result())
  orThrow(await stepped.result())
  return { sample: (sampled - started) / 1000, train: (performance.now() - sampled) / 1000 }
}

const main = async ({ url, model, baseModel = model, rank, steps }: Options): Promise<void> => {
  if (!existsSync(model)) await makeModel(model)
  if (url === undefined) return
  const client = tinkerClient({ url })
  const session = orThrow(await client.session()())
  const trainer = orThrow(await session.trainer({ baseModel, lora: { rank } })())
  const phases: Phases[] = []
  for (let i = 0; i <= steps; i++) phases.push(await step(trainer, i))
  const [first, ...timed] = phases
  const seconds = timed.map(({ sample, train }) => sample + train)
  console.log(
    JSON.stringify({
      ...{ program: 'tinkerGrpo', server: session.server.name, ...options },
      ...{ first_seconds: first!.sample + first!.train, seconds: median(seconds) },
      spread: { lowest: Math.min(...seconds), highest: Math.max(...seconds) },
      phases: { sample: median(timed.map(({ sample }) => sample)), train: median(timed.map(({ train }) => train)) },
      ...host(),
    }),
  )
  await session.close()
  await client.close()
}

await main(options)
