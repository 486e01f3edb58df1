/** `docs/demonstration.md` matches its data: `npm run make -- demonstration` writes both. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { nameOf, readResults, SHARED } from '../../scripts/kit/demonstration.js'
import { demonstrationPicture, filledPage, PAGE, PICTURE } from '../../scripts/kit/demonstrationPage.js'

const results = readResults()

describe('docs/demonstration.md', () => {
  it('has the tables and the picture of the data', () => {
    const page = readFileSync(PAGE, 'utf8')
    expect(filledPage(page, results)).toBe(page)
    expect(readFileSync(PICTURE, 'utf8')).toBe(demonstrationPicture(results))
  })

  it.each(results.map((run) => [nameOf(run), run] as const))('has all steps of the run %s', (_, { steps, ended }) => {
    if (ended === undefined) expect(steps).toHaveLength(SHARED.steps)
    for (const { cpuSeconds } of steps) expect(cpuSeconds).toBeGreaterThan(0)
  })
})
