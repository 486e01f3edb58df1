/**
 * For everybody who plays from the command line: `tandem` finds its command `agent` here.
 *
 * @module
 */
import type { CommandEntry } from 'tandem-rl/command'

export const commands: readonly CommandEntry[] = [
  {
    name: 'agent',
    summary: 'Play the agent of a recipe and print its events.',
    group: 'Evaluate:',
    examples: [
      'tandem agent run calculatorAgent --agent code',
      'tandem agent run calculatorAgent --conversations 8 --chains 4 --json',
    ],
    load: async (args) => (await import('./commands/agent.js')).agentCommand(args),
  },
]
