/**
 * For everybody who checks servers from the command line: `tandem` finds its command `tinker` here.
 *
 * @module
 */
import type { CommandEntry } from 'tandem-rl/command'

export const commands: readonly CommandEntry[] = [
  {
    name: 'tinker',
    summary: 'Check what a Tinker server computes.',
    group: 'Serve:',
    examples: ['tandem tinker check http://127.0.0.1:8000', 'tandem tinker check http://127.0.0.1:8000 --json'],
    load: async () => (await import('./commands/tinker.js')).tinkerCommand(),
  },
]
