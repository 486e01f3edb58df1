/**
 * Times whole GRPO steps (sample, reward, backward, update) with a random reward: the counterpart
 * of the peers' grpo_trl.py. It runs the compiled package. Workers share sampling and gradients,
 * with `threads` threads in all.
 */
import { median } from '@tandem-rl/base'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { parameterCount } from 'tandem-rl/models'
import { pythonPeer, sharedPeer } from './shared/peers.js'
import { benchConfig, readOptions, runBench } from './shared/settings.js'
import { grpoWork } from './work/grpo.js'

const { settings, peer } = readOptions(
  'Runs whole GRPO steps on random prompts with a random reward.',
  { prompts: 16, group: 8, prompt: 32, newTokens: 64, workers: 2 },
  ['trl'],
)
const { prompts, group, prompt, newTokens, workers } = settings
const config = benchConfig(settings)
await selectBackend({ threads: Math.max(1, Math.floor(settings.threads / workers)) })
const work = await grpoWork(config, settings)

await runBench(
  {
    program: 'grpo',
    settings,
    parameters: parameterCount(config),
    work: { name: 'completion_tokens_per_second', amount: prompts * group * newTokens },
  },
  work.run,
  peer && pythonPeer(sharedPeer('grpo_trl.py'), settings, { prompts, group, prompt, 'new-tokens': newTokens }),
)

const timed = work.phases.slice(settings.warmup)
console.log(
  JSON.stringify({
    program: 'grpo',
    phases: {
      generate: median(timed.map(({ generate }) => generate)),
      train: median(timed.map(({ train }) => train)),
    },
  }),
)
await work.close()
