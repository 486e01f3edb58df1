/**
 * For everybody who measures from the command line: `tandem` finds its command `bench` here.
 *
 * @module
 */
import type { CommandEntry } from 'tandem-rl/command'

export const commands: readonly CommandEntry[] = [
  {
    name: 'bench',
    summary: 'Benchmark the steps of a recipe.',
    group: 'Evaluate:',
    examples: [
      'tandem bench wordProblems --measured 10',
      'tandem bench wordProblems --against ./my-recipe.ts --rounds 5',
    ],
    load: async (args) => (await import('./commands/bench.js')).benchCommand(args),
  },
]
