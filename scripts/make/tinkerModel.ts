/**
 * Makes the random model that Tinker servers are checked with: `npm run make -- tinkerModel FOLDER
 * [SEED]`.
 *
 * A Qwen3 decoder of 2 layers and 256 hidden units over bytes, 270 tokens. Its weights have a
 * standard deviation of 0.3, so that an adapter can teach it a text in few steps. One seed gives
 * the same files on every machine.
 */
import { child, keyFromSeed, orThrow } from '@tandem-rl/base'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { newModel } from '../../src/modules/pretrained/newModel.js'
import { hostArrays } from '../../src/modules/pretrained/pretrained.js'
import { saveModel } from '../../src/modules/pretrained/saveModel.js'
import { initialParams, parameterCount } from '../../src/modules/transformer/params.js'

const SCALE = 0.3

const [folder, seed = '0'] = process.argv.slice(2)
if (folder === undefined) throw new RangeError('usage: npm run make -- tinkerModel FOLDER [SEED]')

await selectBackend()
const key = keyFromSeed(Number(seed))
const { config, text } = orThrow(
  newModel({
    ...{ family: 'qwen3', key },
    sizes: { hiddenSize: 256, layers: 2, heads: 8, keyValueHeads: 2, maxPositions: 1024 },
    tokenizer: { texts: ['user\nassistant\n'], vocabularySize: 270 },
  }),
)
const arrays = scope(() => hostArrays(initialParams(config, child(key, 'params'), SCALE)))
await orThrow(saveModel(folder, { config, text, arrays }))
console.log(`${folder}: ${parameterCount(config)} parameters, ${config.vocabularySize} tokens`)
