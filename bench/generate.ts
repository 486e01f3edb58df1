/** Times batched sampling at fixed lengths: the counterpart of the peers' generate.py. */
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { parameterCount } from '../src/modules/transformer/params.js'
import { pythonPeer, sharedPeer } from './shared/peers.js'
import { benchConfig, readOptions, runBench } from './shared/settings.js'
import { generateWork } from './work/generate.js'

const { settings, peer } = readOptions(
  'Samples completions of random prompts, each prompt its own.',
  { batch: 64, prompt: 32, newTokens: 128 },
  ['transformers'],
)
const { batch, prompt, newTokens } = settings
const config = benchConfig(settings)
await selectBackend({ threads: settings.threads })

await runBench(
  {
    program: 'generate',
    settings,
    parameters: parameterCount(config),
    work: { name: 'tokens_per_second', amount: batch * newTokens },
  },
  generateWork(config, settings),
  peer && pythonPeer(sharedPeer('generate.py'), settings, { batch, prompt, 'new-tokens': newTokens }),
)
