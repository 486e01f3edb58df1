/**
 * For everybody who trains on several machines from the command line: `tandem` finds its commands
 * `worker` and `launch` here.
 *
 * @module
 */
import type { CommandEntry } from 'tandem-rl/command'

export const commands: readonly CommandEntry[] = [
  {
    name: 'worker',
    summary: 'Play rollouts of a recipe for a remote trainer.',
    group: 'Train:',
    examples: ['tandem worker gsm8k --queue redis://127.0.0.1:6379 --queue-name run-1 --on http://127.0.0.1:8000'],
    load: async (args) => (await import('./commands/worker.js')).workerCommand(args),
  },
  {
    name: 'launch',
    summary: 'Run a job of verl, OpenRLHF or NeMo-RL on a Ray cluster, and follow it in a run folder.',
    group: 'Train:',
    examples: [
      'tandem launch job.yaml --url http://head:8265 --out runs/verl',
      'tandem launch --resume runs/verl',
      'tandem launch --stop runs/verl',
    ],
    load: async () => (await import('./commands/launch.js')).launchCommand(),
  },
]
