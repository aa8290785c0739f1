// Vercel's AI SDK, with Airlock's tools by MCP.
import { createMCPClient } from '@ai-sdk/mcp'
import { Experimental_StdioMCPTransport as StdioMCPTransport } from '@ai-sdk/mcp/mcp-stdio'
import { openai } from '@ai-sdk/openai'
import { stepCountIs, streamText } from 'ai'

const airlock = await createMCPClient({
	transport: new StdioMCPTransport({
		command: 'airlock',
		args: ['mcp', '--files', '.', '--output', '.'],
		env: process.env,
	}),
})
const answer = streamText({
	model: openai(process.env.OPENAI_MODEL),
	tools: await airlock.tools(),
	stopWhen: stepCountIs(10),
	prompt: 'Which region of sales.csv sells most? Draw the revenue of each as revenue.png.',
})
for await (const text of answer.textStream) process.stdout.write(text)
console.log()
await airlock.close()
