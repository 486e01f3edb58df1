import { describe, expect, it } from 'vitest'
import { type LineChart, lineChart, type Panel } from '../src/lineChart.js'

const panel = (fields: Partial<Panel> = {}): Panel => ({
  title: 'a panel',
  xLabel: 'across',
  yLabel: 'up',
  yRange: [0, 5],
  series: [
    {
      name: 'line',
      points: [
        [0, 0],
        [10, 5],
      ],
    },
  ],
  ...fields,
})

const chart = (panels: readonly Panel[], fields: Partial<LineChart> = {}): string =>
  lineChart({ title: 'a chart', description: 'what it shows', panels, ...fields })

const pathsOf = (svg: string): readonly string[] =>
  [...svg.matchAll(/<path class="c [^>]* d="([^"]*)"/g)].map(([, d]) => d!)
const ticksOf = (svg: string, anchor: 'middle' | 'end'): readonly number[] =>
  [...svg.matchAll(new RegExp(`text-anchor="${anchor}">(-?[\\d.]+)<`, 'g'))].map(([, text]) => Number(text))

describe('lineChart', () => {
  it('draws from corner to corner of its axes, whose ticks are round', () => {
    const svg = chart([panel()])
    expect(pathsOf(svg)).toEqual(['M58 196L386 30'])
    expect(ticksOf(svg, 'middle')).toEqual([0, 2, 4, 6, 8, 10])
    expect(ticksOf(svg, 'end')).toEqual([0, 1, 2, 3, 4, 5])
  })

  it('has steps of equal ratio on a logarithmic axis', () => {
    const points = [0.1, 1, 10].map((x) => [x, 1] as const)
    const svg = chart([panel({ xScale: 'log', series: [{ name: 'line', points }] })])
    expect(pathsOf(svg)).toEqual(['M58 162.8L222 162.8L386 162.8'])
    expect(ticksOf(svg, 'middle')).toEqual([0.1, 0.2, 0.3, 0.5, 1, 2, 3, 5, 10])
  })

  it('leaves room above and below the curves of an axis without a range', () => {
    const { yRange: _, ...open } = panel()
    expect(pathsOf(chart([open]))).toEqual(['M58 189.9L386 36.1'])
  })

  it('refuses a logarithmic axis that begins at 0', () => {
    expect(() => chart([panel({ xScale: 'log' })])).toThrow(/begins above 0, got 0/)
  })

  it('leaves a gap where a value is not finite', () => {
    const points = [
      [0, 0],
      [1, 1],
      [2, Number.NaN],
      [3, 1],
      [4, 0],
    ] as const
    expect(pathsOf(chart([panel({ series: [{ name: 'line', points }], yRange: [0, 1] })]))).toEqual([
      'M58 196L140 30M304 30L386 196',
    ])
  })

  it('has one entry of the legend and one color for a name in several panels', () => {
    const both = [panel(), panel({ series: [{ name: 'other', points: [[0, 1]] }, ...panel().series] })]
    const svg = chart(both)
    expect([...svg.matchAll(/>(line|other)</g)].map(([, name]) => name)).toEqual(['line', 'other'])
    expect([...svg.matchAll(/<path class="c (s\d) /g)].map(([, color]) => color)).toEqual(['s0', 's1', 's0'])
  })

  it('has a description for screen readers, whatever its words', () => {
    const svg = chart([panel()], { title: 'a < b & c', description: 'x > y' })
    expect(svg).toContain('role="img" aria-labelledby="title desc"')
    expect(svg).toContain('<title id="title">a &lt; b &amp; c</title>')
    expect(svg).toContain('<desc id="desc">x &gt; y</desc>')
  })

  it('grows by rows of panels and of the legend', () => {
    const heightOf = (svg: string): number => Number(/ height="(\d+)"/.exec(svg)![1])
    const many = Array.from({ length: 20 }, (_, i) => ({ name: `a curve with a name ${i}`, points: [[0, 0]] as const }))
    expect(heightOf(chart([panel(), panel()]))).toBe(heightOf(chart([panel()])))
    expect(heightOf(chart([panel(), panel(), panel()]))).toBe(heightOf(chart([panel()])) + 240)
    expect(heightOf(chart([panel({ series: many })]))).toBeGreaterThan(heightOf(chart([panel()])) + 100)
  })
})
