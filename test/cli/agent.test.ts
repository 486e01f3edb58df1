/** The options of `tandem agent run` and the flags of recipes do not collide. */
import { expect, it } from 'vitest'
import { agentCommand } from '../../src/cli/agent.js'

it('tandem agent run has the flags of its recipe', async () => {
  const command = await agentCommand(['run', 'calculatorAgent'])
  const flags = command.commands[0]!.options.map(({ long }) => long)
  expect(flags).toEqual(expect.arrayContaining(['--conversations', '--chains', '--shown', '--prompts', '--group']))
})
