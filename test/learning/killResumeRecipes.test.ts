/** Kill and resume of two recipes: sampling from `tandem serve`, and several turns with a tool. */
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  contentsOf,
  gsm8kLines,
  parseJsonLines,
  tandem,
  tandemOk,
  useTemporaryFolder,
  writeAnsweringModel,
} from '../kit/runs.js'
import { startServe } from '../kit/serveProcess.js'

const at = useTemporaryFolder()

const STEPS = 5

/**
 * Trains into `whole`, and into `killed` with a SIGKILL in step 4, after the checkpoint of step 2;
 * then resumes that.
 */
const trainKillResume = async (name: string, flags: readonly string[]): Promise<void> => {
  const common = [name, ...flags, '--steps', String(STEPS), '--checkpoint-every', '2', '--eval-every', String(STEPS)]
  const quiet = ['--eval-tasks', '2', '--threads', '1', '--json']
  const [cwd, whole, killed] = [at('.'), at(`${name}-whole`), at(`${name}-killed`)]
  await tandemOk(['train', ...common, ...quiet, '--out', whole], { cwd })
  const { signal } = await tandem(['train', ...common, ...quiet, '--out', killed], {
    cwd,
    // the next step has begun when the line of a step arrives
    onLine: (line) => (line.includes('"type":"step","step":3,') ? 'SIGKILL' : undefined),
  })
  expect(signal).toBe('SIGKILL')
  const { stdout } = await tandemOk(['train', '--resume', killed, '--threads', '1', '--json'], { cwd })
  expect(stdout).toContain('"type":"start","firstStep":3')
}

const finalFiles = (folder: string) => contentsOf(at(`${folder}/checkpoints/step-${String(STEPS).padStart(6, '0')}`))

const expectEqualWeights = (name: string): void => {
  const [whole, resumed] = [finalFiles(`${name}-whole`), finalFiles(`${name}-killed`)]
  for (const file of ['model.safetensors', 'optimizer.safetensors'])
    expect(resumed[file] !== undefined && resumed[file] === whole[file], file).toBe(true)
  expect(contentsOf(at(`${name}-killed`))['trajectories.jsonl']).toBe(
    contentsOf(at(`${name}-whole`))['trajectories.jsonl'],
  )
}

describe('kill -9 of a recipe in the middle of a step', () => {
  it('gsm8k sampling from tandem serve ends, when resumed, with the weights of one that was never stopped', async () => {
    const model = await writeAnsweringModel(at('model'))
    writeFileSync(at('rows.jsonl'), gsm8kLines(40))
    const server = await startServe(model, 'policy')
    const sizes = ['tasks.prompts=3', 'tasks.group=4', 'sampling.maxNewTokens=8', 'learner.learningRate=0.01']
    try {
      await trainKillResume('gsm8k', [
        ...['--model', model, '--dataset', at('rows.jsonl'), '--engine', server.url],
        ...sizes.flatMap((text) => ['--set', text]),
      ])
    } finally {
      await server.stop()
    }
    expectEqualWeights('gsm8k')
  })

  it('calculator ends, when resumed, with the weights of one that was never stopped', async () => {
    const sizes = ['shown=1920', 'batch=16', 'tasks.prompts=2', 'tasks.group=8', 'learner.learningRate=0.001']
    await trainKillResume(
      'calculator',
      sizes.flatMap((text) => ['--set', text]),
    )
    expectEqualWeights('calculator')
    const steps = parseJsonLines(readFileSync(at('calculator-whole/metrics.jsonl'), 'utf8'))
    expect(steps.some(({ toolCalls }) => Number(toolCalls) > 0)).toBe(true)
  })
})
