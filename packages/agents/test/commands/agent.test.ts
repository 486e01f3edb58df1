/**
 * `tandem agent run` as a process: the agent of a recipe, with a start model that has hardly been
 * trained.
 */
import { describe, expect, it } from 'vitest'
import { parseJsonLines, tandem, tandemOk, useTemporaryFolder } from '../../../../test/kit/runs.js'

const cwd = useTemporaryFolder()('.')

const play = (...args: readonly string[]): readonly string[] => [
  ...['agent', 'run', 'calculatorAgent', '--shown', '64', '--max-new-tokens', '8', '--threads', '1', ...args],
]

describe('tandem agent run', () => {
  it('prints all events of all chains and the metrics as lines of JSON, the same for the same seed', async () => {
    const args = play('--conversations', '2', '--chains', '3', '--concurrent', '2', '--seed', '5', '--json')
    const [first, second] = [await tandemOk(args, { cwd }), await tandemOk(args, { cwd })]
    const lines = parseJsonLines(first.stdout)
    const chainsWith = (type: string) =>
      lines
        .filter((line) => line.type === type)
        .map(({ chainId }) => chainId)
        .sort()
    const starts = chainsWith('chain_start')
    expect(new Set(starts).size).toBe(6)
    expect(chainsWith('chain_end')).toEqual(starts)
    expect(chainsWith('reward')).toEqual(starts)
    expect(lines.at(-1)).toMatchObject({ type: 'metrics', metrics: { 'agent/rollout/avg_turns': expect.any(Number) } })
    const said = (text: string) =>
      parseJsonLines(text).flatMap(({ type, chainId, turn, text: reply }) =>
        type === 'generation_end' ? [`${chainId} ${turn} ${reply}`] : [],
      )
    expect(said(second.stdout).sort()).toEqual(said(first.stdout).sort())
  })

  it('shows one chain as it is played, and then the metrics', async () => {
    const { stdout } = await tandemOk(play(), { cwd })
    expect(stdout).toContain('[turn 1]')
    expect(stdout).toMatch(/^agent\/rollout\/avg_turns [\d.]+$/m)
  })

  it('plays the agent of the shop', async () => {
    const args = ['agent', 'run', 'shopAgent', '--shown', '64', '--max-new-tokens', '4', '--threads', '1']
    const { stdout } = await tandemOk(args, { cwd })
    expect(stdout).toContain('[turn 1]')
    expect(stdout).toMatch(/^agent\/rollout\/avg_turns [\d.]+$/m)
  })

  it('refuses a recipe without an agent, and a wrong number, before anything is made', async () => {
    const none = await tandem(['agent', 'run', 'reverseText'], { cwd })
    expect(none).toMatchObject({ code: 1, stdout: '' })
    expect(none.stderr).toContain("the recipe reverseText has no agent: add 'agent' to defineRecipe({ ... })")
    const wrong = await tandem(play('--chains', '0'), { cwd })
    expect(wrong).toMatchObject({ code: 1, stdout: '' })
    expect(wrong.stderr).toContain('--chains')
  })
})
