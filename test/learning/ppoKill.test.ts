/** PPO ends with the same bytes whether or not its process was killed on the way. */
import { expect, it } from 'vitest'
import { contentsOf, tandem, tandemOk, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'

const path = useTemporaryFolder()

const FLAGS = [
  ...['--steps', '5', '--eval-tasks', '2', '--checkpoint-every', '2', '--threads', '1', '--json'],
  ...['tasks.prompts=2', 'tasks.group=3', 'maxNewTokens=8', 'learner.learningRate=0.01', 'keep.alarms=off'].flatMap(
    (setting) => ['--set', setting],
  ),
]

const weights = (run: string) =>
  Object.fromEntries(
    Object.entries(contentsOf(path(`${run}/checkpoints/step-000005`))).filter(([name]) =>
      name.endsWith('.safetensors'),
    ),
  )

it('resumes after SIGKILL to the same weights, value head and optimizer state, byte for byte', async () => {
  const model = await writeAnsweringModel(path('model'))
  const args = ['train', 'ppo', '--model', model, ...FLAGS]
  await tandemOk([...args, '--out', 'whole'], { cwd: path('') })

  const isThird = (line: string): boolean => line.includes('"type":"step","step":3')
  const killed = await tandem([...args, '--out', 'killed'], {
    cwd: path(''),
    onLine: (line) => (isThird(line) ? 'SIGKILL' : undefined),
  })
  expect(killed.signal).toBe('SIGKILL')
  expect(() => weights('killed')).toThrow()

  await tandemOk(['train', '--resume', 'killed', '--threads', '1', '--json'], { cwd: path('') })
  const whole = weights('whole')
  expect(Object.keys(whole)).toEqual(['model.safetensors', 'optimizer.safetensors', 'value_head.safetensors'])
  expect(weights('killed')).toEqual(whole)
})
