/**
 * `docs/objectives.md` and its figures are what the doc comments and the functions say: `npm run
 * make -- objectives` writes them.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { lineChart } from '../../packages/bench/src/lineChart.js'
import { type Documented, objectiveDocs, objectivesPage, problemsOf } from '../../scripts/kit/objectiveDocs.js'
import { objectiveCaptions, objectiveFigures } from '../../scripts/kit/objectiveFigures.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const FOLDER = 'docs/images/objectives'
const NUMBER = /-?\d+(?:\.\d+)?/g

const docs = objectiveDocs()

/** The curves of a figure in pixels, each with its color and kind of line. */
const curvesOf = (svg: string): readonly { readonly of: string; readonly numbers: readonly number[] }[] =>
  [...svg.matchAll(/<path class="([^"]*)" d="([^"]*)"/g)].map(([, of, path]) => ({
    of: of!,
    numbers: path!.match(NUMBER)!.map(Number),
  }))

/** Tick labels and what else is said in the figure. */
const wordsOf = (svg: string): readonly string[] =>
  [...svg.matchAll(/<(?:text|title|desc)[^>]*>([^<]*)</g)].map(([, words]) => words!)

describe('docs/objectives.md', () => {
  it('matches the doc comments', () => {
    expect(readFileSync('docs/objectives.md', 'utf8')).toBe(objectivesPage(docs, objectiveCaptions))
  })

  it('has every exported function of src/objectives with its blocks', () => {
    expect(problemsOf(docs)).toEqual([])
  })

  it('names a function that lacks a block, and one that is in no section', () => {
    const without = (each: Documented): Documented => ({ ...each, blocks: new Map() })
    const lacking = docs.map((each) => (each.name === 'cispo' ? without(each) : each))
    expect(problemsOf(lacking)).toContain('cispo of src/objectives/tokenLosses/cispo.ts has no block Gradient')
    const foreign = { ...docs[0]!, name: 'newLoss' }
    expect(problemsOf([...docs, foreign])).toEqual([expect.stringMatching(/^newLoss of .* is in no section/)])
    expect(problemsOf(docs.filter(({ name }) => name !== 'gae'))).toEqual([
      expect.stringMatching(/^gae is on the page/),
    ])
  })

  it('has dollars in pairs, and no mathematics that Markdown would take for its own', () => {
    const page = readFileSync('docs/objectives.md', 'utf8')
    expect(page.replace(/\$`[^`]+`\$/g, '').replace(/`[^`]*`/g, '')).not.toContain('$')
  })
})

describe('figures of objectives', () => {
  it('are those of the functions, each curve within a pixel', () => {
    const drawn = objectiveFigures()
    expect(readdirSync(FOLDER).sort()).toEqual([...drawn.keys()].map((name) => `${name}.svg`).sort())
    for (const [name, chart] of drawn) {
      const [stored, fresh] = [readFileSync(join(FOLDER, `${name}.svg`), 'utf8'), lineChart(chart)]
      expect(wordsOf(stored), name).toEqual(wordsOf(fresh))
      const [old, now] = [curvesOf(stored), curvesOf(fresh)]
      expect(old.map((curve) => [curve.of, curve.numbers.length])).toEqual(
        now.map((curve) => [curve.of, curve.numbers.length]),
      )
      const far = now.flatMap(({ numbers }, i) => numbers.filter((x, j) => Math.abs(x - old[i]!.numbers[j]!) > 1))
      expect(far, name).toEqual([])
    }
  })
})
