/**
 * For everybody who looks at runs from the command line: `tandem` finds its commands `view`, `runs`
 * and `compare` here.
 *
 * @module
 */
import type { CommandEntry } from 'tandem-rl/command'

export const commands: readonly CommandEntry[] = [
  {
    name: 'view',
    summary: 'Show runs in a browser: curves, rollouts token by token, and what would have been otherwise.',
    group: 'Evaluate:',
    examples: ['tandem view runs', 'tandem view runs/first runs/second --port 8080'],
    load: async () => (await import('./commands/view.js')).viewCommand(),
  },
  {
    name: 'runs',
    summary: 'List runs with their state, newest numbers and tags.',
    group: 'Evaluate:',
    examples: ['tandem runs', 'tandem runs runs/first --json'],
    load: async () => (await import('./commands/runs.js')).runsCommand(),
  },
  {
    name: 'compare',
    summary: 'Compare runs: the settings that differ and the newest value of each metric.',
    group: 'Evaluate:',
    examples: ['tandem compare runs/first runs/second', 'tandem compare runs --names reward,update.entropy --json'],
    load: async () => (await import('./commands/compare.js')).compareCommand(),
  },
]
