import { describe, expect, it } from 'vitest'
import { contentsOf, THREADS, tandem, tandemOk, useTemporaryFolder } from '../kit/runs.js'

const at = useTemporaryFolder()

/** The kill comes in the fourth step: the short form ends with it. */
const STEPS = process.env.LEARNING === 'short' ? 4 : 6

const FLAGS = [
  ...['--steps', `${STEPS}`, '--checkpoint-every', '2', '--eval-every', '3', '--eval-tasks', '8', '--json'],
  ...THREADS,
]

describe('kill -9 in the middle of a step', () => {
  it('leaves a run that ends, when resumed, with the parameters of one that was never stopped, bit for bit', async () => {
    await tandemOk(['train', '--out', at('whole'), ...FLAGS], { cwd: at('.') })
    const killed = await tandem(['train', '--out', at('killed'), ...FLAGS], {
      cwd: at('.'),
      // the next step has begun when the line of a step arrives
      onLine: (line) => (line.includes('"type":"step","step":3,') ? 'SIGKILL' : undefined),
    })
    expect(killed.signal).toBe('SIGKILL')
    await tandemOk(['train', '--resume', at('killed'), '--json', ...THREADS], { cwd: at('.') })
    const [whole, resumed] = [
      contentsOf(at(`whole/checkpoints/step-00000${STEPS}`)),
      contentsOf(at(`killed/checkpoints/step-00000${STEPS}`)),
    ]
    for (const file of ['model.safetensors', 'optimizer.safetensors']) {
      expect(resumed[file] !== undefined && resumed[file] === whole[file], file).toBe(true)
    }
  })
})
