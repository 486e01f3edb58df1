/** Forward and backward pass of next-token cross-entropy on random tokens: the counterpart of the peers' train_step.py. */
import { selectBackend } from '../src/engine/select.js'
import { parameterCount } from '../src/modules/transformer/params.js'
import { benchConfig, readOptions, runBench } from './settings.js'
import { trainWork } from './work/train.js'

const { settings, mode } = readOptions('Trains on random tokens: forward and backward pass.', {
  batch: 16,
  length: 128,
})
const { batch, length } = settings
const config = benchConfig(settings)
await selectBackend({ threads: settings.threads })

await runBench(
  {
    program: 'train_step',
    settings,
    parameters: parameterCount(config),
    work: { name: 'tokens_per_second', amount: batch * length },
    peerProgram: 'train_step.py',
    peerArguments: { batch, length },
  },
  trainWork(config, settings),
  mode,
)
