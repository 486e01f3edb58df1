/**
 * A real browser on pages of this computer: what it does, where it does not go, and that nothing of
 * it is left.
 */
import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { keyFromSeed } from '@tandem-rl/base'
import { type Browser, browserTool, openBrowser, type ToolReply } from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ToolFailure } from '../../src/envs/base/toolFailure.js'
import { chromiumPath, noChromium, openSite, type Site } from '../kit/chromium.js'
import { manualTime } from '../kit/manualTime.js'
import { childrenOf, noMoreThan, openSockets } from '../kit/resources.js'
import { leftOf, rightOf } from '../kit/results.js'

const profiles = () => readdirSync(tmpdir()).filter((name) => name.startsWith('playwright_'))

const why = noChromium === undefined ? '' : ` (skipped: ${noChromium})`

describe.skipIf(noChromium !== undefined)(`a browser${why}`, () => {
  const before = { children: new Set(childrenOf()), sockets: openSockets(), profiles: profiles() }
  let site: Site
  let evil: Site
  let browser: Browser
  const time = manualTime()

  beforeAll(async () => {
    evil = await openSite({ '/': 'evil', '/x.js': '', '/frame': 'evil frame' })
    site = await openSite({
      '/': `<title>Shop</title><body><h1>Hello</h1><a href="/next">Next</a><input id=q>
        <button onclick="document.title=q.value; result.textContent='you wrote '+q.value">Go</button><p id=result></p></body>`,
      '/next': '<title>Next</title>the second page',
      '/long': `<p>${'é'.repeat(50_000)}</p>`,
      '/away': { status: 302, headers: { location: `${evil.origin}/` } },
      '/twice': { status: 302, headers: { location: '/away' } },
      '/home': { status: 302, headers: { location: '/next' } },
      '/embeds': `<img src="${evil.origin}/i.png"><script src="${evil.origin}/x.js"></script><link rel=prefetch href="${evil.origin}/p">
        <iframe src="${evil.origin}/frame"></iframe><script>fetch('${evil.origin}/fetch').catch(() => {}); new WebSocket('${evil.origin.replace('http', 'ws')}/ws')
        navigator.sendBeacon('${evil.origin}/beacon', 'x')</script>stays`,
      '/redirected-embed': `<img src="/away"><iframe src="/away"></iframe>stays`,
      '/jump': `<script>location.href='${evil.origin}/'</script>`,
      '/data-frame': '<iframe src="data:text/html,hidden"></iframe>',
      '/blob-frame': `<script>f=document.createElement('iframe');f.src=URL.createObjectURL(new Blob(['x'],{type:'text/html'}));document.documentElement.append(f)</script>`,
      '/talks': `<script>alert('give me'); confirm('sure?'); window.open('/next'); window.open('${evil.origin}/'); document.title = prompt('name') === null ? 'none' : 'some'</script>`,
      '/file': {
        status: 200,
        headers: { 'content-type': 'application/zip', 'content-disposition': 'attachment; filename=a.zip' },
        body: 'PK',
      },
      '/keeps': `<script>document.cookie='a=1'; localStorage.a = (localStorage.a ?? '') + 'x'; document.title = localStorage.a</script>`,
      '/worker': `<script>navigator.serviceWorker?.register('/sw.js').then(() => { document.title = 'registered' }, () => {})</script>`,
      '/stuck': '<title>Stuck</title><button onclick="while(true);">Hang</button>',
      '/liar': `<script>Object.defineProperty(HTMLElement.prototype, 'innerText', { get: () => 'y'.repeat(1e6) })</script>`,
    })
    browser = await rightOf(
      openBrowser({
        ...{ executablePath: chromiumPath, sandbox: 'none', allowedOrigins: [site.origin] },
        limits: { maxText: 1000, elementMs: 60_000, actionMs: 60_000, pages: 3 },
        world: { timers: time },
      }),
    )
  })

  afterAll(async () => {
    await browser.close()
    await Promise.all([site.close(), evil.close()])
    await noMoreThan(before.children)
    expect(profiles().filter((name) => !before.profiles.includes(name))).toEqual([])
    expect(openSockets()).toBeLessThanOrEqual(before.sockets)
  })

  /** A conversation with a browser: each call begins with what the one before left. */
  const converse = (of: Browser = browser) => {
    const tool = browserTool(of)
    let state: unknown = tool.initial
    const ask = async (
      action: string,
      args: Readonly<Record<string, unknown>> = {},
      signal = new AbortController().signal,
    ): Promise<E.Either<ToolFailure, ToolReply>> => {
      const result = await tool.call({ action, ...args }, { state, key: keyFromSeed(0), signal })()
      if (E.isRight(result)) state = result.right.state
      return result
    }
    const said = async (...asked: Parameters<typeof ask>) => {
      const result = await ask(...asked)
      return E.isRight(result) ? String(result.right.content) : `${result.left.kind}: ${result.left.reason}`
    }
    /** Goes to a page, and says more each time: what happens on it may happen a little later. */
    const watch = async (path: string) => {
      let all = await said('navigate', { url: `${site.origin}${path}` })
      const told = async () => {
        all += `\n${await said('extract')}`
        return all
      }
      return { told }
    }
    return {
      ask,
      said,
      watch,
      go: (path: string) => said('navigate', { url: `${site.origin}${path}` }),
      state: () => state,
      tool,
    }
  }

  it('goes to pages, clicks, types, extracts, scrolls and takes pictures', async () => {
    const { said, ask, go } = converse()
    expect(await go('/')).toMatch(/^Shop\nhttp:\/\/127.0.0.1:\d+\/ \(status 200\)\n\nHello\n/)
    expect(await said('type', { selector: '#q', text: 'blue "chairs"' })).toBe('typed')
    await said('click', { selector: 'button' })
    expect(await said('extract', { selector: '#result' })).toBe('you wrote blue "chairs"')
    expect(await said('scroll', { direction: 'down' })).toBe('scrolled down')
    expect(await ask('screenshot')).toMatchObject(
      E.right({
        content: [{ type: 'image', source: { mediaType: 'image/png', base64: expect.stringMatching(/^iVBOR/) } }],
      }),
    )
    await said('click', { selector: 'text=Next' })
    await expect.poll(() => said('extract')).toBe('the second page')
    expect(await go('/home')).toMatch(/^Next\n.*\/next/)
    expect(await said('click', {})).toBe('arguments: click needs selector')
    expect(await said('extract', { selector: ']]' })).toMatch(/^failed: .*/)
  })

  it('bounds what a page says, whatever the page does about it', async () => {
    const { go, said } = converse()
    expect((await go('/long')).length).toBeLessThan(1200)
    await go('/liar')
    expect((await said('extract')).length).toBeLessThan(1100)
  })

  it('goes nowhere else when it is asked to', async () => {
    const { said } = converse()
    const port = new URL(evil.origin).port
    const elsewhere = [
      ...[
        `${evil.origin}/`,
        `http://localhost:${port}/`,
        `${site.origin}.evil.test/`,
        `http://${site.origin.slice(7)}@evil.test/`,
      ],
      ...[
        'data:text/html,hi',
        'file:///etc/passwd',
        'about:blank',
        'javascript:alert(1)',
        'chrome://version',
        'https://example.com',
      ],
      ...[
        site.origin.replace('127.0.0.1', '2130706433'),
        site.origin.replace('127.0.0.1', '0x7f.1'),
        `view-source:${site.origin}`,
      ],
    ]
    for (const url of elsewhere) expect(await said('navigate', { url }), url).toMatch(/^failed: /)
  })

  it.each(['/away', '/twice', '/jump', '/embeds', '/redirected-embed'])(
    'goes nowhere else by itself: %s',
    async (path) => {
      const { told } = await converse().watch(path)
      await expect.poll(told).toContain(`"${evil.origin}" is not an allowed origin`)
      if (path.includes('embed')) expect(await told()).toContain('stays')
    },
  )

  it('shows no frame of data and blobs', async () => {
    const data = await converse().watch('/data-frame')
    await expect.poll(data.told).toContain('the page was closed: it went to data:text')
    const blob = await converse().watch('/blob-frame')
    await expect.poll(blob.told).toContain('the page was closed: it went to blob:')
  })

  it('was never asked for by any of these pages', () => {
    expect(evil.asked).toEqual([])
    expect(site.asked).toContain('GET /redirected-embed')
  })

  it('dismisses dialogs, closes windows, refuses downloads, and reports each', async () => {
    const { told } = await converse().watch('/talks')
    await expect.poll(told).toMatch(/^none\n/)
    await expect.poll(told).toContain('[alert dismissed: "give me"]')
    await expect.poll(told).toContain('[confirm dismissed: "sure?"]')
    await expect.poll(told).toContain('[a new window was closed]')
    const file = await converse().watch('/file')
    await expect.poll(file.told).toMatch(/download/i)
  })

  it('has no cookies and storage of other conversations, and no workers that stay', async () => {
    const [one, other] = [converse(), converse()]
    expect(await one.go('/keeps')).toMatch(/^x\n/)
    expect(await one.go('/keeps')).toMatch(/^xx\n/)
    expect(await other.go('/keeps')).toMatch(/^x\n/)
    expect(site.asked.filter((line) => line === 'GET /keeps').length).toBe(2)
    await one.go('/worker')
    await one.said('extract')
    expect(site.asked).not.toContain('GET /sw.js')
  })

  it('tells a conversation that was forked, replayed or left alone for too long that its page is gone', async () => {
    const one = converse()
    expect(await one.said('extract')).toBe('failed: no page is open: navigate first')
    await one.go('/next')
    const forked = one.state()
    await one.said('extract')
    const call = one.tool.call(
      { action: 'extract' },
      { state: forked, key: keyFromSeed(0), signal: new AbortController().signal },
    )
    expect(await call()).toMatchObject(
      E.left({ reason: 'the page of this conversation no longer exists; no page is open: navigate first' }),
    )
    expect(await one.said('extract')).toBe('the second page')
    for (const _ of [1, 2, 3]) await converse().go('/next') // no more than three pages
    expect(browser.pages()).toBe(3)
    expect(await one.said('extract')).toMatch(/no longer exists/)
    expect(await one.go('/next')).toMatch(/^Next/)
  })

  it('gives up a page that hangs, or that nobody waits for', async () => {
    const { go, said } = converse()
    await go('/stuck')
    const mine = new AbortController()
    const hanging = said('click', { selector: 'button' }, mine.signal)
    setTimeout(() => mine.abort(), 300)
    expect(await hanging).toBe('timeout: it was cancelled, and the page was closed')
    expect(await go('/next')).toMatch(/^Next/)
  })

  it('closes a page that takes too long, and those that nobody uses', async () => {
    const one = converse()
    await one.go('/next')
    const waiting = one.go('/never')
    await expect.poll(() => site.asked).toContain('GET /never')
    time.pass(60_001)
    expect(await waiting).toBe('timeout: it took more than 60000 ms, and the page was closed')
    time.pass(600_000)
    await converse().go('/next')
    expect(browser.pages()).toBe(1)
  })

  it('is started again when it died', async () => {
    const one = converse()
    await one.go('/next')
    for (const id of childrenOf()) if (!before.children.has(id)) process.kill(id, 'SIGKILL')
    await expect.poll(() => one.said('extract')).toMatch(/no longer exists; no page is open/)
    expect(await one.go('/next')).toMatch(/^Next/)
  })

  it('names the program that cannot be started', async () => {
    const options = { executablePath: '/no/such/chromium', allowedOrigins: ['example.com'] }
    expect(await leftOf(openBrowser(options))).toMatchObject({
      reason: 'no browser found at /no/such/chromium',
    })
    const wrong = { ...options, executablePath: process.execPath }
    expect(await leftOf(openBrowser(wrong))).toMatchObject({ reason: expect.stringContaining('does not start') })
    const load = () => Promise.reject(new Error('Cannot find package'))
    expect(await leftOf(openBrowser({ ...options, world: { load } }))).toMatchObject({
      reason: expect.stringContaining('npm install playwright-core'),
    })
    expect(() => openBrowser({ ...options, limits: { pages: 0 } })).toThrow(RangeError)
    expect(() => openBrowser({ ...options, allowedOrigins: ['*'] })).toThrow(RangeError)
  })
})
