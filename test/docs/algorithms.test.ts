/** `docs/algorithms.md` matches its data: `npm run make -- curves` writes tables and pictures. */
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { curvesPicture, DATA, filledPage, PAGE, pictureOf, SETUPS } from '../../scripts/kit/learningPage.js'
import { addRun, isDone, readLearningData } from '../../scripts/kit/learningRuns.js'
import { useTemporaryFolder } from '../kit/runs.js'

const at = useTemporaryFolder()
const data = readLearningData(DATA)
const page = readFileSync(PAGE, 'utf8')

describe('docs/algorithms.md', () => {
  it('has the tables of the data', () => {
    expect(filledPage(page, data)).toBe(page)
  })

  it.each(SETUPS)('shows the picture of the data: $title', (setup) => {
    expect(page).toContain(pictureOf(setup).slice('docs/'.length))
    expect(readFileSync(pictureOf(setup), 'utf8')).toBe(curvesPicture(data, setup))
  })

  it.each(SETUPS)('has every algorithm and seed, with a number for each batch: $title', (setup) => {
    const { id, algorithms, seeds, settings } = setup
    for (const algorithm of algorithms)
      for (const seed of seeds) {
        expect(isDone(data, { setup: id, algorithm, seed }, settings), `${algorithm} ${seed}`).toBe(true)
        const run = data.runs.find((each) => each.setup === id && each.algorithm === algorithm && each.seed === seed)!
        const { heldOut, accuracy, reward, gradNorm, clipFraction, pgClipFraction, entropy, klToRef } = run
        expect(heldOut).toHaveLength(settings.steps + 1)
        for (const curve of [accuracy, reward, gradNorm, clipFraction, pgClipFraction, entropy, klToRef])
          expect(curve).toHaveLength(settings.steps)
      }
  })

  it('has no run that ends within 5 points of what the test of learning asks', () => {
    const margins = SETUPS.flatMap(({ id, threshold }) =>
      threshold === null
        ? []
        : data.runs.filter(({ setup }) => setup === id).map(({ heldOut }) => heldOut.at(-1)! - threshold),
    )
    expect(margins.length).toBeGreaterThanOrEqual(24) // 8 algorithms, 3 seeds
    expect(Math.min(...margins)).toBeGreaterThan(0.05)
  })
})

describe('the file of learning runs', () => {
  it('is the same however its runs come, and a run that comes again takes the place of the first', () => {
    const { settings } = SETUPS[0]!
    const [first, second, third] = data.runs.filter(({ setup }) => setup === SETUPS[0]!.id)
    for (const run of [first!, second!, third!]) addRun(at('a.json'), run, settings)
    for (const run of [third!, { ...first!, cpuSeconds: 0 }, second!, first!]) addRun(at('b.json'), run, settings)
    expect(readFileSync(at('b.json'), 'utf8')).toBe(readFileSync(at('a.json'), 'utf8'))
    expect(readLearningData(at('a.json')).runs).toHaveLength(3)
    expect(existsSync(at('a.json.part'))).toBe(false)
  })

  it('keeps runs of other settings apart: they are refused', () => {
    const [run] = data.runs
    const { settings } = SETUPS.find(({ id }) => id === run!.setup)!
    expect(() => isDone(data, run!, { ...settings, steps: 99 })).toThrow(/were made with .* not .*"steps":99/)
  })
})
