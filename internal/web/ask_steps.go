package web

import (
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/pytool"
)

// liveStep is code of a turn that continues.
type liveStep struct {
	tab     int // its place in the turn, from 1 on
	tool    bool
	started bool
	printed bool // its output has come while it ran
}

// codeBody is code, or more of it; the page shows it as text.
type codeBody struct {
	Turn     int    `json:"turn"`
	Tab      int    `json:"tab"`
	Language string `json:"language"`
	Code     string `json:"code"`
}

// printedBody is output of running code.
type printedBody struct {
	Turn   int    `json:"turn"`
	Tab    int    `json:"tab"`
	Stream string `json:"stream"`
	Data   string `json:"data"`
}

func (s *askStream) step(id string) *liveStep {
	if s.steps == nil { // the turn's beginning was dropped
		s.steps = map[string]*liveStep{}
	}
	step, ok := s.steps[id]
	if !ok {
		s.paragraph()
		step = &liveStep{tab: len(s.steps) + 1}
		s.steps[id] = step
	}
	return step
}

// code tells of code that a model writes, and that runs. Where it is the
// run_python tool that runs it, the page gets the tool's own packets, whose
// placement says which turn and which step of it they are about.
func (s *askStream) code(e conversation.Event) {
	switch e := e.(type) {
	case provider.CodeDelta:
		step := s.step(e.StepID)
		s.put("code", codeBody{s.turn, step.tab, languageTitle(e.Language), e.Code})
	case provider.StepStarted:
		s.start(s.step(e.Step.ID), e.Step)
	case provider.OutputDelta:
		step := s.step(e.StepID)
		step.printed = true
		s.print(step, e.Stream, e.Data)
	case provider.FileFound:
		if step, ok := s.steps[e.Artifact.StepID]; ok && step.tool {
			s.packet(step, pytool.ToolDelta{Type: "python_tool_delta", FileIDs: []string{e.Artifact.Ref.ID}})
		}
		s.put("found", progressBody{Turn: s.turn, Name: e.Artifact.Name, Size: e.Artifact.Size})
	case provider.StepDone:
		s.end(s.step(e.Step.ID), e.Step)
	}
}

func (s *askStream) start(step *liveStep, is provider.Step) {
	step.started, step.tool = true, is.Tool == pytool.Name
	if step.tool {
		s.packet(step, pytool.ToolStart{Type: "python_tool_start", Code: is.Code})
	} else {
		s.put("started", codeBody{s.turn, step.tab, languageTitle(is.Language), is.Code})
	}
	s.put("highlight", partBody{Turn: s.turn, Tab: step.tab, HTML: string(highlight(is.Language, is.Code))})
}

func (s *askStream) print(step *liveStep, stream, data string) {
	if !step.tool {
		s.put("output", printedBody{s.turn, step.tab, stream, data})
		return
	}
	delta := pytool.ToolDelta{Type: "python_tool_delta", Stdout: data, FileIDs: []string{}}
	if stream == "stderr" {
		delta.Stdout, delta.Stderr = "", data
	}
	s.packet(step, delta)
}

func (s *askStream) end(step *liveStep, is provider.Step) {
	if !step.started {
		s.start(step, is)
	}
	if !step.printed {
		for stream, data := range map[string]string{"stdout": is.Stdout, "stderr": is.Stderr} {
			if data != "" {
				s.print(step, stream, data)
			}
		}
	}
	if step.tool {
		s.packet(step, pytool.SectionEnd{Type: "section_end"})
	}
	view := stepOf(s.turn, step.tab, is)
	s.put("result", partBody{Turn: s.turn, Tab: step.tab, HTML: s.render("outcome", view)})
}

func (s *askStream) packet(step *liveStep, obj any) {
	s.put("packet", pytool.Packet{Placement: pytool.Placement{TurnIndex: s.turn, TabIndex: step.tab}, Obj: obj})
}
