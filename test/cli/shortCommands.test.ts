/** `tandem sft` is `tandem train sft`, for every recipe that is a command. */
import { expect, it } from 'vitest'
import { tandem, tandemOk, useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

it.each(['sft', 'dpo', 'ppo', 'distill', 'reward'])('tandem %s has the settings of its recipe', async (name) => {
  const args = ['--steps', '3', '--set', 'learner.learningRate=3e-5', '--print-config']
  const { stdout } = await tandemOk([name, ...args], { cwd: path('') })
  expect(JSON.parse(stdout)).toMatchObject({ steps: 3, learner: { learningRate: 3e-5 } })
})

it('names itself in its help', async () => {
  const { stdout } = await tandemOk(['sft', '--help'], { cwd: path('') })
  expect(stdout).toMatch(/^Usage: tandem sft \[options\]\n/)
})

it('refuses a setting that the recipe does not have, with the nearest one', async () => {
  const { code, stderr } = await tandem(['dpo', '--set', 'btea=1'], { cwd: path('') })
  expect(code).toBe(1)
  expect(stderr).toContain("unknown setting 'btea': did you mean 'beta'?")
})
