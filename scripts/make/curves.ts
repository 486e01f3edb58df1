/**
 * Trains the shipped model by many algorithms, three seeds each, and writes docs/algorithms.md
 * with its pictures: `npm run make -- curves`.
 *
 * Runs whose numbers are in docs/data/algorithms.json are not made again: a run that was stopped
 * is taken up, and without any run to make the page is written from the numbers alone. `--setup`,
 * `--algorithms` and `--seeds` take names with commas between them and make a part.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { ALGORITHM_NAMES, type AlgorithmName } from '../../src/objectives/algorithms.js'
import { curvesPicture, DATA, filledPage, PAGE, pictureOf, SETUPS } from '../kit/learningPage.js'
import { addRun, isDone, learn, type RunName, readLearningData } from '../kit/learningRuns.js'

const RUNS = 'runs/learning-curves'

const { values } = parseArgs({
  options: { setup: { type: 'string' }, algorithms: { type: 'string' }, seeds: { type: 'string' } },
})

const asked = (text: string | undefined): readonly string[] | undefined => text?.split(',')

const known = (name: string): AlgorithmName => {
  const found = ALGORITHM_NAMES.find((each) => each === name)
  if (found === undefined) throw new RangeError(`--algorithms: '${name}' is none of ${ALGORITHM_NAMES.join(', ')}`)
  return found
}

const names: readonly RunName[] = SETUPS.filter(({ id }) => asked(values.setup)?.includes(id) ?? true).flatMap(
  ({ id, algorithms, seeds }) =>
    (asked(values.seeds)?.map(Number) ?? seeds).flatMap((seed) =>
      (asked(values.algorithms)?.map(known) ?? algorithms).map((algorithm) => ({ setup: id, algorithm, seed })),
    ),
)

await selectBackend({ threads: 1 })
for (const [i, name] of names.entries()) {
  const { settings } = SETUPS.find(({ id }) => id === name.setup)!
  if (isDone(readLearningData(DATA), name, settings)) continue
  const say = (line: string): void => console.log(`[${i + 1} of ${names.length}] ${name.setup}: ${line}`)
  addRun(DATA, await learn(name, settings, { parent: RUNS, say }), settings)
}

const data = readLearningData(DATA)
for (const setup of SETUPS) {
  mkdirSync(dirname(pictureOf(setup)), { recursive: true })
  writeFileSync(pictureOf(setup), curvesPicture(data, setup))
}
writeFileSync(PAGE, filledPage(readFileSync(PAGE, 'utf8'), data))
console.log(`${PAGE} is written`)
