/**
 * Times the forward and backward pass of next-token cross-entropy: see the peers' train_step.py.
 * `--peer compiled` is the same program by `torch.compile`, which needs a C++ compiler.
 */
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { parameterCount } from '../src/modules/transformer/params.js'
import { ownPeer, pythonPeer, sharedPeer } from './shared/peers.js'
import { benchConfig, readOptions, runBench } from './shared/settings.js'
import { trainWork } from './work/train.js'

const PROGRAMS = { torch: sharedPeer('train_step.py'), compiled: ownPeer('trainStepCompiled.py') }

const { settings, peer } = readOptions(
  'Trains on random tokens: forward and backward pass.',
  { batch: 16, length: 128 },
  ['torch', 'compiled'],
)
const { batch, length } = settings
const config = benchConfig(settings)
await selectBackend({ threads: settings.threads })

await runBench(
  {
    program: 'train_step',
    settings,
    parameters: parameterCount(config),
    work: { name: 'tokens_per_second', amount: batch * length },
  },
  trainWork(config, settings),
  peer && pythonPeer(PROGRAMS[peer], settings, { batch, length }),
)
